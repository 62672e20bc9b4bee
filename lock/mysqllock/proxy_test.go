package mysqllock

import (
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/stock/mysqlerr"
)

// A fate is what a proxy does to a request.
type fate int

const (
	pass      fate = iota
	cutBefore      // break the connection; the server never sees the request
	cutAfter       // let the server do it, and break the connection when it answers
	drop           // from this request on pass nothing on, in either direction, not even the end of the connection
	hang           // the same, but the server still sees this request
	late           // let the server see it when the test says so, also if the client is no longer there
	collide        // answer in the server's place, which does not see it, that it lost to another: error 1213
	overdue        // the same, but that it waited for too long: error 1205
)

func (f fate) String() string {
	return [...]string{"pass", "cut before", "cut after", "drop", "hang", "late", "collide", "overdue"}[f]
}

// A proxy stands between a lock and its server and breaks what it is told to.
type proxy struct {
	addr   string
	server string
	listen net.Listener
	all    sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	rule     func(n int, request string) fate
	requests []string
	silent   bool
	onward   chan struct{} // closed to let pass what is late
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listen.Addr().String(), server: server, listen: listen, conns: map[net.Conn]bool{}, onward: make(chan struct{})}
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

// obey sets the rule, which gets the request and its number from now on, 1 being the next. It is called for one at a time.
func (p *proxy) obey(rule func(n int, request string) fate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.rule = nil, rule
}

// at makes the proxy do f to the n-th request.
func (p *proxy) at(n int, f fate) {
	p.obey(func(i int, _ string) fate {
		if i == n {
			return f
		}
		return pass
	})
}

// seen are the requests since the rule was set.
func (p *proxy) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.requests...)
}

// setSilent makes every connection, old or new, pass nothing on, as a network that drops packets does.
func (p *proxy) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
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
		dead := new(atomic.Bool)
		answer := make(chan fate, 1)
		p.all.Go(func() {
			greeted := 0
			p.pump(client, server, dead, func(b []byte) fate {
				if greeted++; greeted == 1 {
					return pass // the log-in
				}
				return p.asked(b, answer)
			})
		})
		p.all.Go(func() {
			now := pass
			p.pump(server, client, dead, func([]byte) fate {
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
func (p *proxy) asked(request []byte, answer chan<- fate) fate {
	p.mu.Lock()
	defer p.mu.Unlock()
	const header, quit = 4, 1
	if len(request) <= header || request[header] == quit {
		return pass
	}
	p.requests = append(p.requests, string(request[header+1:]))
	if p.rule == nil {
		return pass
	}
	switch f := p.rule(len(p.requests), string(request[header+1:])); f {
	case cutAfter:
		answer <- cutBefore // the answer is what is cut before it is passed on
		return pass
	case hang:
		answer <- drop
		return pass
	default:
		return f
	}
}

func (p *proxy) mute(dead *atomic.Bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silent || dead.Load()
}

func (p *proxy) pump(from, to net.Conn, dead *atomic.Bool, decide func([]byte) fate) {
	defer func() {
		_ = from.Close()
		if !p.mute(dead) { // or the other side would learn of it
			_ = to.Close()
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		switch fate := decide(buffer[:n]); fate {
		case cutBefore:
			return
		case drop:
			dead.Store(true)
		case late:
			<-p.onward
		case collide, overdue:
			number, text := uint16(mysqlerr.Deadlock), "#40001Deadlock found"
			if fate == overdue {
				number, text = mysqlerr.LockWaitTimeout, "#HY000Lock wait timeout exceeded"
			}
			answer := append(binary.LittleEndian.AppendUint16([]byte{0, 0, 0, 1, 0xff}, number), text...)
			answer[0] = byte(len(answer) - 4)
			if _, err := from.Write(answer); err != nil {
				return
			}
			continue
		}
		if p.mute(dead) {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
