package wire

import (
	"net"
	"sync"
	"time"
)

// A conn is one connection of a client, and the connection to the server that belongs to it.
type conn struct {
	proxy  *Proxy
	client net.Conn
	done   chan struct{} // closed by cut
	once   sync.Once

	mu     sync.Mutex
	server net.Conn // nil until it is connected

	fate    *Snare // the snare for the reply to request; nil: none
	request []byte
}

// A chunk has the bytes of one read, and its time.
type chunk struct {
	bytes []byte
	at    time.Time
}

func (c *conn) serve() {
	defer func() {
		c.cut()
		c.proxy.mu.Lock()
		delete(c.proxy.conns, c)
		c.proxy.mu.Unlock()
	}()
	server, err := net.DialTimeout("tcp", c.proxy.target, 5*time.Second)
	if err != nil {
		reset(c.client)
		return
	}
	c.mu.Lock()
	c.server = server
	c.mu.Unlock()
	select {
	case <-c.done: // cut before there was a connection to the server
		server.Close()
		return
	default:
	}
	var both sync.WaitGroup
	both.Go(func() { c.forward(ToServer, server, c.client) })
	both.Go(func() { c.forward(ToClient, c.client, server) })
	both.Wait()
}

// cut breaks both ends. It does not need p.mu, and may be called with it.
func (c *conn) cut() {
	c.once.Do(func() { close(c.done) })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.client.Close()
	if c.server != nil {
		c.server.Close()
	}
}

// endSession ends the connection to the server, and keeps the client's.
func (c *conn) endSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		c.server.Close()
	}
}

// forward forwards messages, and finally the sender's close, until the connection is cut.
func (c *conn) forward(d Direction, to, from net.Conn) {
	chunks := make(chan chunk, 64)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() { c.read(from, chunks) })

	var pending []byte
	first := true
	for chunk := range chunks {
		if !c.delayed(chunk.at) {
			return
		}
		for pending = append(pending, chunk.bytes...); len(pending) > 0; first = false {
			n := len(pending)
			if c.proxy.protocol.Split != nil {
				n = c.proxy.protocol.Split(d, pending)
			}
			if n == 0 {
				break
			}
			message, ok := c.pass(d, pending[:n], first)
			to := to
			if pong := c.proxy.pong(d, message); ok && pong != nil {
				message, to = pong, c.client
			}
			if !ok {
				c.cut()
				return
			}
			if _, err := to.Write(message); err != nil {
				c.cut()
				return
			}
			pending = pending[n:]
		}
	}
	if c.proxy.speaks(c, d) && (d == ToServer || !c.proxy.answersPings()) {
		_, _ = to.Write(pending)
		_ = to.(*net.TCPConn).CloseWrite()
	}
}

func (c *conn) read(from net.Conn, chunks chan<- chunk) {
	defer close(chunks)
	for {
		b := make([]byte, 32<<10)
		n, err := from.Read(b)
		if n > 0 {
			select {
			case chunks <- chunk{b[:n], time.Now()}:
			case <-c.done:
				return
			}
		}
		if err != nil {
			return // a reset is treated like an end, which a silent network does not forward
		}
	}
}

// delayed waits until bytes that came at a moment may be forwarded. It returns false if the connection is cut before.
func (c *conn) delayed(at time.Time) bool {
	due := at.Add(c.proxy.late())
	if time.Until(due) <= 0 {
		return true
	}
	const exact = 2 * time.Millisecond // a cut does not end this part
	timer := time.NewTimer(time.Until(due) - exact)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.done:
	}
	if rest := time.Until(due); rest > 0 && rest <= exact {
		sleep(rest)
	}
	select {
	case <-c.done:
		return false
	default:
		return true
	}
}

// pass applies the action of a message's snare, and returns the message to forward. It returns false if the connection
// must be cut.
func (c *conn) pass(d Direction, message []byte, first bool) ([]byte, bool) {
	p := c.proxy
	if !p.speaks(c, d) {
		return nil, false
	}
	chatter := p.protocol.Chatter != nil && p.protocol.Chatter(message, first)
	p.mu.Lock()
	if d == ToServer && !chatter {
		p.count++
	}
	snare := p.spring(d, message, chatter)
	p.mu.Unlock()
	if snare == nil {
		return message, d == ToServer || c.replied(message)
	}
	switch snare.trap.Do {
	case Hold:
		return message, c.held(snare)
	case Answer:
		_, err := c.client.Write(snare.trap.Answer(message))
		return nil, err == nil
	case CutReply, HoldReply:
		c.mu.Lock()
		c.fate, c.request = snare, append([]byte(nil), message...)
		c.mu.Unlock()
		return message, true
	default:
		return nil, false
	}
}

// replied applies the action of the request's snare to its reply. It returns false if the connection must be cut.
func (c *conn) replied(reply []byte) bool {
	c.mu.Lock()
	fate, answers := c.fate, c.proxy.protocol.Answers
	if fate == nil || (answers != nil && !answers(c.request, reply)) {
		c.mu.Unlock()
		return true
	}
	c.fate = nil
	c.mu.Unlock()
	return fate.trap.Do != CutReply && c.held(fate)
}

func (c *conn) held(s *Snare) bool {
	select {
	case <-s.released:
		return true
	case <-c.done:
		return false
	}
}

func (p *Proxy) answersPings() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pongs
}

// pong returns the reply to a ping that the proxy answers itself, or nil.
func (p *Proxy) pong(d Direction, message []byte) []byte {
	if d != ToServer || p.protocol.Pong == nil || !p.answersPings() {
		return nil
	}
	return p.protocol.Pong(message)
}

func (p *Proxy) late() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// speaks waits while direction d is silent. It returns false if the connection is cut before.
func (p *Proxy) speaks(c *conn, d Direction) bool {
	for {
		p.mu.Lock()
		silent, changed := p.silent[d], p.changed
		p.mu.Unlock()
		if !silent {
			return true
		}
		select {
		case <-changed:
		case <-c.done:
			return false
		}
	}
}
