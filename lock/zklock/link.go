package zklock

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A link is a TCP or TLS connection that parses the server's reply to the greeting, and the headers of its other
// replies. The library does not report the granted session timeout, nor that a server greets and then closes the
// connection. It cannot limit the wait for the reply to the greeting either: if a server accepts connections but does
// not answer (a stopped or overloaded process), it waits ten times two thirds of the timeout.
type link struct {
	net.Conn
	g       *generation
	addr    string
	opened  time.Time
	limit   time.Time // time limit for the answer to the greeting
	renewal renewal

	// What Read has parsed.
	head     []byte // the beginning of a reply that has not arrived completely
	rest     int    // number of bytes of a reply that are still to arrive and are not parsed
	greeted  bool
	timeout  time.Duration
	session  int64 // 0: the server does not know the session any more
	answered bool  // a request after the greeting was answered without an error
	refused  int32 // the server's error if it demands an identity or refuses ours; 0: it does not
}

// answerBytes is how much of each reply a link parses. Of the reply to the greeting: its length, the protocol version
// and the timeout in ms (4 bytes each), and the session id (8 bytes). Of the others: the length and the xid (4 bytes
// each), the transaction (8 bytes) and the error (4 bytes).
const answerBytes = 4 + 4 + 8 + 4

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
		g.logNoConnection(&link{addr: addr}, err)
		return nil, err
	}
	l := &link{Conn: conn, g: g, addr: addr, opened: time.Now()}
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

// Read reads, parses the replies, and sends the credentials.
//
// The credentials are sent here and not by the library's AddAuth. The library reports a session before AddAuth could be
// called, and remembers credentials only when they have been answered. So after a broken connection, requests could be
// sent without them, and make nodes with another ACL. The server handles them before the requests that follow on the
// same connection, so nothing waits for the reply.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if err != nil && !l.answered {
		l.g.logNoConnection(l, err)
	}
	for bytes := p[:n]; len(bytes) > 0; {
		if l.rest > 0 {
			skipped := min(len(bytes), l.rest)
			l.rest, bytes = l.rest-skipped, bytes[skipped:]
			continue
		}
		taken := min(len(bytes), answerBytes-len(l.head))
		l.head, bytes = append(l.head, bytes[:taken]...), bytes[taken:]
		if len(l.head) == answerBytes {
			l.rest = max(0, 4+int(binary.BigEndian.Uint32(l.head))-answerBytes)
			l.parse()
			l.head = l.head[:0]
		}
	}
	return n, err
}

// parse parses the head of a reply.
func (l *link) parse() {
	if !l.greeted {
		l.greeted = true
		l.timeout = time.Duration(int32(binary.BigEndian.Uint32(l.head[8:]))) * time.Millisecond
		l.session = int64(binary.BigEndian.Uint64(l.head[12:]))
		_ = l.Conn.SetReadDeadline(time.Time{})
		if auth := l.g.s.auth; len(auth) > 0 && l.session != 0 {
			if _, err := l.Conn.Write(auth); err != nil {
				l.Close()
			}
		}
		return
	}
	xid, failed := int32(binary.BigEndian.Uint32(l.head[4:])), int32(binary.BigEndian.Uint32(l.head[16:]))
	switch {
	case xid == xidOfAuth && failed != 0:
		l.refuse(failed)
		l.Close() // so that no request is made without the credentials
	case failed == authenticationRequired && !l.answered:
		l.refuse(failed) // the server then closes the connection
	case xid >= 0 && failed == 0 && !l.answered:
		l.answered = true
		l.g.route.served()
	}
}

// refuse records that the server demands an identity or refuses ours.
func (l *link) refuse(failed int32) {
	l.refused = failed
	l.g.s.mu.Lock()
	defer l.g.s.mu.Unlock()
	l.g.s.unknown = true
}

// Close closes the TCP connection. TLS would first tell the server, and may wait for seconds to do so.
func (l *link) Close() error {
	if secure, is := l.Conn.(interface{ NetConn() net.Conn }); is {
		return secure.NetConn().Close()
	}
	return l.Conn.Close()
}

// SetReadDeadline sets the library's deadline once the greeting has been answered. Before that it sets limit.
func (l *link) SetReadDeadline(t time.Time) error {
	if !l.greeted {
		t = l.limit
	}
	return l.Conn.SetReadDeadline(t)
}

// logNoConnection logs why a server could not be used: once for each server until one has answered a request, and then
// one of them once a minute, because the reason may have become another one.
func (g *generation) logNoConnection(l *link, err error) {
	r := g.route
	if g.over.Err() != nil || r.failed > r.Len() && time.Since(r.told) < time.Minute {
		return
	}
	r.told = time.Now()
	why := "zookeeper cannot be reached" // with TLS 1.3, also a client certificate that the server does not accept
	switch {
	case l.refused == authenticationRequired:
		why = "zookeeper demands authentication: zookeeper.credentials or a client certificate is missing"
	case l.refused != 0:
		why = "zookeeper does not accept zookeeper.credentials: its scheme digest may be switched off"
	case l.greeted:
		why = "zookeeper greets us and closes the connection before it answers a request: " +
			"zookeeper.credentials or a client certificate may be missing, or not accepted"
	}
	g.s.log.Warn(why, "server", l.addr, "error", err, "credentials", len(g.s.config.Credentials) > 0)
}

// A renewal makes the library renew its watches on a new connection of an old session before it sends other requests.
//
// With its watches the library sends the number of the last transaction that it has seen. It reads the number from a
// variable that every reply advances, without a mutex, which is a data race. And if a reply came before the watches,
// they would miss the events in between.
type renewal struct {
	due bool // the connection continues a session

	mu      sync.Mutex
	greeted bool   // the first request, which is the greeting, was sent
	held    []byte // requests that wait until the watches are renewed
	timed   bool   // the time limit runs
	done    bool
}

// renewalTime is the longest time for which requests are held back. A limit is needed because only the library knows
// whether there are watches to renew.
const renewalTime = 50 * time.Millisecond

// Operations of the protocol, and the offset of the operation in a request: after its length and its xid.
const (
	opPing       = 11
	opSetWatches = 101
	opClose      = -11
	opAt         = 8
)

// Write sends a request, or holds it back until the watches are renewed. The library writes one whole request at a
// time, and returns the error of Write to the caller of the request. The error matches errOutage: see replied.
func (l *link) Write(p []byte) (int, error) {
	n, err := l.send(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", errOutage, err)
	}
	return n, err
}

func (l *link) send(p []byte) (int, error) {
	r := &l.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due || r.done || !r.greeted || len(p) < opAt+4 {
		r.greeted = true
		return l.Conn.Write(p)
	}
	switch int32(binary.BigEndian.Uint32(p[opAt:])) {
	case opPing:
		return l.Conn.Write(p)
	case opSetWatches:
		r.done = true
		n, err := l.Conn.Write(p)
		if err == nil && len(r.held) > 0 {
			_, err = l.Conn.Write(r.held)
		}
		return n, err
	case opClose:
		r.done = true
		if _, err := l.Conn.Write(r.held); err != nil {
			return 0, err
		}
		return l.Conn.Write(p)
	}
	r.held = append(r.held, p...)
	if !r.timed {
		r.timed = true
		time.AfterFunc(renewalTime, l.sendHeld)
	}
	return len(p), nil
}

// sendHeld sends the requests that were held back, when renewalTime has passed and so there are no watches to renew.
func (l *link) sendHeld() {
	r := &l.renewal
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	if _, err := l.Conn.Write(r.held); err != nil {
		l.Close() // the library notices at its next request or reply
	}
}

// A route is the order in which servers are tried, and the pause between tries. The library's own HostProvider resolves
// names only once, so it does not find a server whose address has changed, and it retries exactly every second. Only
// the library's connection loop uses a route.
type route struct {
	over    context.Context
	servers []string
	at      int
	failed  int           // tries since a server has last answered a request
	told    time.Time     // when a failure was logged last
	longest time.Duration // that the last pause could be; 0: none since a server has last answered a request
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
	r.failed++
	return server, r.over.Err() != nil
}

// Connected is called when a server has greeted us. It does nothing: the server may close each connection after that.
func (r *route) Connected() {}

// served is called when a server has answered a request.
func (r *route) served() { r.failed, r.longest = 0, 0 }

// pause waits before a try. It does not wait in the first round over all servers, then it waits 50 to 100 ms, doubling
// up to 1 s. Because of the jitter, clients that lost the same server do not all reconnect at the same moment.
func (r *route) pause() error {
	var wait time.Duration
	if r.failed > len(r.servers) {
		r.longest = min(max(2*r.longest, 100*time.Millisecond), time.Second)
		wait = r.longest/2 + rand.N(r.longest/2)
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
