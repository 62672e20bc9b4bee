// Package wire is a proxy that fails on command as networks do: it breaks or refuses connections, goes silent, delays,
// and loses or holds back one request or its reply. It is for tests, the fault lab and benchmarks.
package wire

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// A Direction is one of the two directions in which bytes go.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

// A Proxy listens on a free port of 127.0.0.1 and forwards to one server at a time. It is safe for concurrent use.
type Proxy struct {
	protocol Protocol
	listener net.Listener
	owned    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	target  string
	conns   map[*conn]bool
	severed bool
	silent  [2]bool
	changed chan struct{} // closed and replaced when silent changes
	delay   time.Duration
	count   int // of requests
	snares  []*Snare
	pongs   bool
}

// Listen opens a Proxy to target, a host:port that need not be up yet.
func Listen(target string, p Protocol) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a proxy to %s: %w", target, err)
	}
	proxy := &Proxy{
		target: target, protocol: p, listener: listener, conns: make(map[*conn]bool),
		changed: make(chan struct{}),
	}
	proxy.owned.Go(proxy.accept)
	return proxy, nil
}

// Addr returns the address to which clients connect.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close breaks every connection and ends the proxy. Messages that are held back are lost. It is idempotent.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.owned.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Cut breaks every open connection, at both ends. Messages in transit or held back are lost. New connections are
// served.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

// AnswerPings makes the proxy answer pings of the protocol itself, as ProxySQL does: the server does not see them, and
// a client does not see that the server has ended its connection.
func (p *Proxy) AnswerPings() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pongs = true
}

// EndSessions ends the connections to the server. Those of clients break, too; with AnswerPings they break at the next
// message that the proxy does not answer itself.
func (p *Proxy) EndSessions() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.endSession()
	}
}

// Silence holds back everything in the given directions, even the end of connections, as a network that drops packets
// does. Each call replaces the previous one. Without a direction, everything flows again, and what was held back
// arrives.
func (p *Proxy) Silence(directions ...Direction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = [2]bool{}
	for _, d := range directions {
		p.silent[d] = true
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Slow makes everything arrive later by that time, in both directions. On Linux the error is some ten microseconds;
// elsewhere the runtime's timers add up to a millisecond. It adds to the time of a round trip, not to the time between
// messages, so a pipeline stays a pipeline.
func (p *Proxy) Slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}

// Sever breaks every open connection, and resets new ones at once, as if the server's port were closed, until Mend.
func (p *Proxy) Sever() {
	p.mu.Lock()
	p.severed = true
	p.mu.Unlock()
	p.Cut()
}

// Mend ends what Sever, Silence and Slow have begun.
func (p *Proxy) Mend() {
	p.mu.Lock()
	p.severed = false
	p.mu.Unlock()
	p.Silence()
	p.Slow(0)
}

// Requests returns the number of messages that clients have sent so far, delivered or not, without chatter.
func (p *Proxy) Requests() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// Connections returns the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		switch {
		case p.severed, p.closed:
			reset(client)
		default:
			c := &conn{proxy: p, client: client, done: make(chan struct{})}
			p.conns[c] = true
			p.owned.Go(c.serve)
		}
		p.mu.Unlock()
	}
}

// reset closes with RST if possible, so that a waiting client gets an error at once.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}
