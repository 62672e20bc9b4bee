package repo_test

import (
	"bytes"
	"net"
	"sync"
	"testing"
)

// A fault is what a proxy does to a request.
type fault int

const (
	pass      fault = iota
	cutBefore       // break the connection; the server never sees the request
	cutAfter        // let the server do it, and break the connection when it answers
	hang            // let the server do it, and keep its answer
)

// A proxy stands between a store and its server and breaks what it is told to.
type proxy struct {
	addr   string
	server string
	listen net.Listener
	all    sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	rule     func(request []byte) fault
	requests int
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listen.Addr().String(), server: server, listen: listen, conns: map[net.Conn]bool{}}
	p.all.Go(p.serve)
	t.Cleanup(func() {
		_ = listen.Close()
		p.mu.Lock()
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.all.Wait()
	})
	return p
}

// once makes the proxy do f to the next request that contains word.
func (p *proxy) once(f fault, word string) {
	done := false
	p.obey(func(request []byte) fault {
		if done || !bytes.Contains(request, []byte(word)) {
			return pass
		}
		done = true
		return f
	})
}

// obey sets the rule. It is called for one request at a time.
func (p *proxy) obey(rule func(request []byte) fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rule = rule
}

// count is how many requests went through during op. Clients here send one only when they have the answer to the last.
func (p *proxy) count(op func()) int {
	p.mu.Lock()
	before := p.requests
	p.mu.Unlock()
	op()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests - before
}

func (p *proxy) serve() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		answer := make(chan fault, 1)
		p.all.Go(func() { p.pump(client, server, func(b []byte) fault { return p.asked(b, answer) }) })
		p.all.Go(func() {
			now := pass
			p.pump(server, client, func([]byte) fault {
				select {
				case now = <-answer:
				default:
				}
				return now
			})
		})
	}
}

// asked decides on a request. What concerns its answer is passed on to the other direction before the server sees the request.
func (p *proxy) asked(request []byte, answer chan<- fault) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if p.rule == nil {
		return pass
	}
	switch f := p.rule(request); f {
	case cutAfter:
		answer <- cutBefore // the answer is what is cut before it is passed on
		return pass
	case hang:
		answer <- hang
		return pass
	default:
		return f
	}
}

func (p *proxy) pump(from, to net.Conn, decide func([]byte) fault) {
	defer func() {
		_, _ = from.Close(), to.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch decide(buffer[:n]) {
		case cutBefore:
			return
		case hang:
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
