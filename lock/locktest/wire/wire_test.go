package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lines is a protocol of lines.
func lines() wire.Protocol {
	return wire.Protocol{Split: func(_ wire.Direction, b []byte) int { return bytes.IndexByte(b, '\n') + 1 }}
}

// A server answers every line with the same in capitals, and remembers it.
type server struct {
	listener net.Listener
	mu       sync.Mutex
	heard    []string
}

func serve(t *testing.T) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{listener: listener}
	var all sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { conn.Close() })()
				for in := bufio.NewScanner(conn); in.Scan(); {
					s.mu.Lock()
					s.heard = append(s.heard, in.Text())
					s.mu.Unlock()
					if _, err := io.WriteString(conn, strings.ToUpper(in.Text())+"\n"); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); stop(); all.Wait() })
	return s
}

func (s *server) saw() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.heard, " ")
}

func open(t *testing.T, target string, p wire.Protocol) *wire.Proxy {
	t.Helper()
	proxy, err := wire.Listen(target, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := proxy.Close(); err != nil {
			t.Error(err)
		}
	})
	return proxy
}

// A client says lines and hears answers.
type client struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, p *wire.Proxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{conn, bufio.NewReader(conn)}
}

func (c client) say(line string) { _, _ = io.WriteString(c, line+"\n") }

// hear is the next answer, or how the connection ended, or "silence".
func (c client) hear(limit time.Duration) string {
	_ = c.SetReadDeadline(time.Now().Add(limit))
	line, err := c.in.ReadString('\n')
	var timeout net.Error
	switch {
	case err == nil:
		return strings.TrimSpace(line)
	case errors.As(err, &timeout) && timeout.Timeout():
		return "silence"
	default:
		return "cut"
	}
}

const (
	limit  = 20 * time.Second
	moment = 50 * time.Millisecond // how long silence is listened to: too short a time makes a test weaker, not red
)

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestSeverAndServeAgain(t *testing.T) {
	s := serve(t)
	p := open(t, s.listener.Addr().String(), lines())
	c := dial(t, p)
	c.say("a")
	expect(t, "to begin with", c.hear(limit), "A")
	p.Sever()
	expect(t, "an open connection", c.hear(limit), "cut")
	expect(t, "a new one", fate(p), "cut")
	p.Mend()
	c = dial(t, p)
	c.say("b")
	expect(t, "served again", c.hear(limit), "B")
}

// A delay is never shorter than asked for, keeps order, and passes the end of a connection on.
func TestDelay(t *testing.T) {
	s := serve(t)
	p := open(t, s.listener.Addr().String(), wire.Protocol{})
	const oneWay = 5 * time.Millisecond
	p.Slow(oneWay)
	c := dial(t, p)
	var sent sync.WaitGroup
	want := strings.Repeat("0123456789\n", 10_000)
	began := time.Now()
	sent.Go(func() {
		_, _ = io.WriteString(c, want)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
	})
	_ = c.SetReadDeadline(time.Now().Add(limit))
	_, err := c.in.Peek(1)
	if took := time.Since(began); took < 2*oneWay || err != nil {
		t.Errorf("there and back in %v, %v, want %v or more", took, err, 2*oneWay)
	}
	got, err := io.ReadAll(c.in)
	if err != nil || string(got) != want {
		t.Errorf("%d bytes (%v), want the %d that were sent, in their order", len(got), err, len(want))
	}
	sent.Wait()
}

// fate is what becomes of a new connection that is to be reset: the kernel may complete it before that, or not.
func fate(p *wire.Proxy) string {
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return "cut"
	}
	defer conn.Close()
	return client{conn, bufio.NewReader(conn)}.hear(limit)
}
