package zklock

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
)

// Operations as they are named on the wire.
const (
	ping   = -2 // as an xid
	opSync = 9
	event  = -1 // as an xid
)

// A proxy stands between a session and the server and understands frames: it can cut the connection at any of them, or go silent.
type proxy struct {
	server   string
	listener net.Listener
	done     sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	silent   bool
	heard    *sync.Cond // silent has changed
	requests int        // seen, without beats and pings
	events   int        // delivered
	cutAt    int        // cut at that request; 0: never
	forward  bool       // and let the server see it first
	mute     bool       // and go silent
	ignore   int        // that many connections are taken and never served
	cuts     int
	greeting []byte // the server's last answer to a greeting
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{server: server, listener: listener, conns: map[net.Conn]bool{}}
	p.heard = sync.NewCond(&p.mu)
	p.done.Go(p.accept)
	t.Cleanup(func() {
		listener.Close()
		p.setSilent(false)
		p.cut()
		p.done.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.conns[client] = true
		ignored := p.ignore > 0
		p.ignore--
		p.mu.Unlock()
		if ignored {
			continue
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[server] = true
		p.mu.Unlock()
		doomed := map[int32]bool{} // xids whose reply must not arrive
		var mu sync.Mutex
		p.done.Go(func() { p.copy(server, client, p.request(doomed, &mu)) })
		p.done.Go(func() { p.copy(client, server, p.reply(doomed, &mu)) })
	}
}

// copy passes frames on while pass says so, and closes both ends when it does not.
func (p *proxy) copy(to, from net.Conn, pass func(frame []byte, first bool) bool) {
	defer to.Close()
	defer from.Close()
	for first := true; ; first = false {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		frame = append(frame, make([]byte, binary.BigEndian.Uint32(frame))...)
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return
		}
		p.mu.Lock()
		for p.silent {
			p.heard.Wait()
		}
		p.mu.Unlock()
		if !pass(frame, first) {
			return
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

func word(frame []byte, at int) int32 { return int32(binary.BigEndian.Uint32(frame[at:])) }

func (p *proxy) request(doomed map[int32]bool, mu *sync.Mutex) func([]byte, bool) bool {
	return func(frame []byte, first bool) bool {
		if first || word(frame, 4) == ping || word(frame, 8) == opSync {
			return true
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests++
		if p.requests != p.cutAt {
			return true
		}
		p.cuts++
		mu.Lock()
		defer mu.Unlock()
		doomed[word(frame, 4)] = true
		p.silent = p.silent || p.mute
		return p.forward
	}
}

func (p *proxy) reply(doomed map[int32]bool, mu *sync.Mutex) func([]byte, bool) bool {
	return func(frame []byte, first bool) bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if first {
			p.greeting = frame
			return true
		}
		if word(frame, 4) == event {
			p.events++
		}
		mu.Lock()
		defer mu.Unlock()
		return !doomed[word(frame, 4)]
	}
}

// cut breaks every connection that is open.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
		delete(p.conns, conn)
	}
}

// setSilent makes the proxy hold back everything, on old and new connections, as a network that drops packets does. What was
// held back arrives when it speaks again.
func (p *proxy) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
	p.heard.Broadcast()
}

// cutAtNext arms the cut at the n-th request from now, 1 being the next, before or after the server has seen it.
func (p *proxy) cutAtNext(n int, forward bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAt, p.forward = p.requests+n, forward
}

func (p *proxy) counts() (requests, events, cuts int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests, p.events, p.cuts
}

// closeSession closes the client's ZooKeeper session behind its back, on a connection of its own.
func (p *proxy) closeSession(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	greeting := p.greeting
	p.mu.Unlock()
	session, password := greeting[12:20], greeting[20:40] // length and bytes
	hello := binary.BigEndian.AppendUint32(nil, 44)
	hello = append(hello, make([]byte, 4+8)...) // version, last zxid
	hello = binary.BigEndian.AppendUint32(hello, uint32(word(greeting, 8)))
	hello = append(append(hello, session...), password...)
	// The client reconnects as soon as the server takes the session from it, and may take it back before it is closed.
	eventually(t, "the session is closed", func() bool {
		conn, err := net.Dial("tcp", p.server)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write(append(hello, 0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5)); err != nil { // opClose is -11
			return false
		}
		answer := make([]byte, answerBytes)
		_, err = io.ReadFull(conn, answer)
		return err == nil && binary.BigEndian.Uint64(answer[12:]) == 0
	})
}
