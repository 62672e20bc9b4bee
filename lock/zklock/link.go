package zklock

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"time"
)

// A link is a TCP connection that reads along until the server has answered the greeting. The library does not say which session
// timeout was granted, nor can it be told how long to wait for the answer: it gives a server that accepts connections but does not
// speak (a stopped process, an overloaded one) ten times two thirds of the timeout.
type link struct {
	net.Conn
	opened  time.Time
	limit   time.Time // for the answer to the greeting
	answer  []byte    // its first bytes
	timeout time.Duration
	session int64 // 0: the server does not know the session any more
	renewal renewal
}

// The answer begins with its length, the protocol version, the timeout in ms (4 bytes each), and the session id (8 bytes).
const answerBytes = 4 + 4 + 4 + 8

// Read reads, and takes note of the first bytes.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if len(l.answer) < answerBytes {
		l.answer = append(l.answer, p[:min(n, answerBytes-len(l.answer))]...)
		if len(l.answer) == answerBytes {
			l.timeout = time.Duration(int32(binary.BigEndian.Uint32(l.answer[8:]))) * time.Millisecond
			l.session = int64(binary.BigEndian.Uint64(l.answer[12:]))
			_ = l.Conn.SetReadDeadline(time.Time{})
		}
	}
	return n, err
}

// SetReadDeadline is the library's, once the greeting was answered.
func (l *link) SetReadDeadline(t time.Time) error {
	if len(l.answer) < answerBytes {
		t = l.limit
	}
	return l.Conn.SetReadDeadline(t)
}

// dial is the library's way to a server. It refuses once the generation is over: a Conn that cannot connect cannot begin another
// session.
func (g *generation) dial(network, addr string, _ time.Duration) (net.Conn, error) {
	if err := g.route.pause(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(g.over, g.s.config.ConnectTimeout)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, opened: time.Now()}
	l.limit = l.opened.Add(3 * g.s.config.ConnectTimeout)
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if g.over.Err() != nil {
		conn.Close()
		return nil, fmt.Errorf("connect: %w", context.Cause(g.over))
	}
	l.renewal.due = g.id != 0
	g.link = l
	return l, nil
}

// A route is the order in which servers are tried, and how long to wait between. The library's own resolves names once and for all,
// so that a server that comes back under another address is not found, and retries every second sharp.
//
// Only the library's connection loop uses it.
type route struct {
	over    context.Context
	servers []string
	at      int
	failed  int // tries since the last success
}

// Init is told the servers, in random order.
func (r *route) Init(servers []string) error {
	r.servers = servers
	return nil
}

// Len is the number of servers.
func (r *route) Len() int { return len(r.servers) }

// Next is the next server to try. The second result makes the library look whether it was closed, and makes it wait for a second.
func (r *route) Next() (server string, stop bool) {
	server = r.servers[r.at%len(r.servers)]
	r.at++
	r.failed++
	return server, r.over.Err() != nil
}

// Connected is told of a session.
func (r *route) Connected() { r.failed = 0 }

// pause waits before a try: not in the first round over all servers, then 50 to 100 ms, doubling up to 1 s. The jitter keeps clients
// that lost the same server from coming back as one.
func (r *route) pause() error {
	var wait time.Duration
	if again := r.failed - len(r.servers) - 1; again >= 0 {
		wait = min(time.Second, 100*time.Millisecond<<min(again, 10))
		wait = wait/2 + rand.N(wait/2)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.over.Done():
		return context.Cause(r.over)
	}
}
