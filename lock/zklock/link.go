package zklock

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"example.com/stock/lock/driver"
)

// A link is a TCP or TLS connection to a server, as the library uses it. It does what the library does not:
//
//   - It reads the granted session timeout in the server's reply to the greeting. The library does not report it.
//   - It limits the wait for that reply. If a server accepts connections but does not answer (a stopped or overloaded
//     process), the library waits ten times two thirds of the session timeout.
//   - It hides the errors of Write, because the library answers such a request twice.
type link struct {
	net.Conn
	reader *bufio.Reader
	g      *generation
	addr   string
	opened time.Time

	// What the reply to the greeting has told.
	greeted bool
	timeout time.Duration

	watches map[string]*watch // by path, set on this link
}

// dial is the library's dialer. It returns an error once the generation is over, so that a Conn cannot begin another
// session.
func (g *generation) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if err := g.route.pause(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.over, g.s.config.ConnectTimeout)
	defer cancel()
	conn, err := g.s.config.Dialer(ctx, network, addr)
	if err != nil {
		g.failed(addr, false, err)
		return nil, err
	}
	l := &link{
		Conn: conn, reader: bufio.NewReader(conn), g: g, addr: addr, opened: time.Now(), watches: map[string]*watch{},
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over.Err() != nil {
		conn.Close()
		return nil, fmt.Errorf("connect: %w", context.Cause(g.over))
	}
	g.dialed = l
	return l, nil
}

func (l *link) Read(p []byte) (int, error) {
	if !l.greeted {
		if err := l.readGreeting(); err != nil {
			l.g.failed(l.addr, false, err)
			return 0, err
		}
	}
	return l.reader.Read(p)
}

// readGreeting waits for the server's reply to the greeting. It begins with its length, the protocol version and the
// timeout in ms, of 4 bytes each.
func (l *link) readGreeting() error {
	head, err := l.reader.Peek(4 + 4 + 4)
	if err != nil {
		return err
	}
	l.greeted = true
	l.timeout = time.Duration(int32(binary.BigEndian.Uint32(head[8:]))) * time.Millisecond
	return l.Conn.SetReadDeadline(time.Time{})
}

// SetReadDeadline sets the library's deadline once the greeting has been answered, and before that our own.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.greeted {
		t = l.opened.Add(3 * l.g.s.config.ConnectTimeout)
	}
	return l.Conn.SetReadDeadline(t)
}

// Write sends a request. After an error it closes the connection and returns none: the library then answers the request
// when the connection ends. With an error it would answer it at once as well, and hang for ever at the second answer if
// the request is one of those with which it repeats the credentials.
func (l *link) Write(p []byte) (int, error) {
	if _, err := l.Conn.Write(p); err != nil {
		l.Close()
	}
	return len(p), nil
}

// Close closes the TCP connection. TLS would first tell the server, and may wait for seconds to do so.
func (l *link) Close() error {
	if secure, is := l.Conn.(interface{ NetConn() net.Conn }); is {
		return secure.NetConn().Close()
	}
	return l.Conn.Close()
}

// A route is the order in which servers are tried, and the pause between tries. The library's own HostProvider resolves
// names only once, so it does not find a server whose address has changed, and it retries exactly every second.
type route struct {
	over    context.Context
	servers []string
	at      int
	failed  atomic.Int64 // tries since a server has last answered a request; monitor resets it
}

// Init receives the servers, in random order.
func (r *route) Init(servers []string) error {
	r.servers = servers
	return nil
}

func (r *route) Len() int { return len(r.servers) }

// Next returns the server to try next. If stop is true, the library waits for a second and checks whether it was
// closed.
func (r *route) Next() (server string, stop bool) {
	server = r.servers[r.at%len(r.servers)]
	r.at++
	return server, r.over.Err() != nil
}

// Connected is called when a server has greeted us. It does nothing: the server may close each connection after that.
func (r *route) Connected() {}

// pause waits before a try. There is no pause in the first round over all servers, then 50 to 100 ms, doubling up to
// 1 s. Because of the jitter, clients that lost the same server do not all reconnect at the same moment.
func (r *route) pause() error {
	again := r.failed.Add(1) - int64(len(r.servers))
	if again <= 0 {
		return driver.Sleep(r.over, 0)
	}
	longest := min(50*time.Millisecond<<min(again, 5), time.Second)
	return driver.Sleep(r.over, longest/2+rand.N(longest/2))
}
