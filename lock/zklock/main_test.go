package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// Servers has the one ZooKeeper of this package's tests, also of those outside the package. Tests that attack a server
// start their own.
var Servers stacktest.Shared

// TestMain lets more tests run at a time than there are processors: nearly all of them wait for a server or for the end
// of a session.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(Servers.Around(m))
}

// A kind is one of the locks of this package, for what must be true of both.
type kind struct {
	name   string
	open   func(*Session) inspectable
	folder func(testing.TB) string // of the test's key
}

type inspectable interface {
	lock.Locker
	lock.Inspector
	lock.Evictor
	lock.Lister
}

func sequentialKind() kind {
	return kind{"zk-sequential", func(s *Session) inspectable { return NewSequential(s) }, folderOf}
}

func ephemeralKind() kind {
	return kind{"zk-ephemeral", func(s *Session) inspectable { return NewEphemeral(s) }, ephemeralFolderOf}
}

func kinds() []kind { return []kind{sequentialKind(), ephemeralKind()} }

// rootOf is the Root of a test and its subtests: tests share a server, but no node.
func rootOf(t testing.TB) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	return "/" + test
}

// keyOf is the test's key.
func keyOf(t testing.TB) string { return t.Name() }

func folderOf(t testing.TB) string { return rootOf(t) + "/" + escape(keyOf(t)) }

func ephemeralFolderOf(t testing.TB) string { return folderOf(t) + ephemeralSuffix }

// dial makes a session that a busy computer does not lose, closed at the end of the test.
func dial(t testing.TB, host string) *Session {
	t.Helper()
	return open(t, Config{
		Hosts: []string{host}, SessionTimeout: 30 * time.Second, ConnectTimeout: 10 * time.Second,
	})
}

// open makes a session and waits until it is connected: a server that has just been started may take longer for that
// than Acquire waits.
func open(t testing.TB, config Config) *Session {
	t.Helper()
	if config.Root == "" {
		config.Root = rootOf(t)
	}
	s, err := Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	connected(t, s)
	return s
}

func connected(t testing.TB, s *Session) {
	t.Helper()
	eventually(t, "connected", s.connected)
}

// raw is a plain client of the server, past every proxy.
func raw(t testing.TB, host string) *zk.Conn {
	t.Helper()
	quiet := zk.WithLogger(debugLog{slog.New(slog.DiscardHandler)})
	conn, events, err := zk.Connect([]string{host}, 10*time.Second, zk.WithLogInfo(false), quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		for range events {
		}
	})
	return conn
}

// longest is how long a test waits for what must come, on a computer that has other work.
const longest = 2 * time.Minute

// acquire waits for the test's key. It asks again where a busy computer keeps the server from answering in time, as a
// client would.
func acquire(t testing.TB, l lock.Locker) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	lease, err := insist(ctx, func() (*lock.Lease, error) { return l.Acquire(ctx, keyOf(t), lock.Options{}) })
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return lease
}

// insist repeats op until its server is up, or ctx ends.
func insist[T any](ctx context.Context, op func() (T, error)) (T, error) {
	for {
		got, err := op()
		if !errors.Is(err, lock.ErrDown) || ctx.Err() != nil {
			return got, err
		}
		<-time.After(20 * time.Millisecond)
	}
}

func acquireLater(t *testing.T, l lock.Locker) <-chan *lock.Lease {
	leases := make(chan *lock.Lease, 1)
	go func() {
		lease, err := insist(t.Context(), func() (*lock.Lease, error) {
			return l.Acquire(t.Context(), keyOf(t), lock.Options{})
		})
		if err != nil {
			t.Errorf("acquire: %v", err)
		}
		leases <- lease
	}()
	return leases
}

func release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// lost waits until the holder is told that its lease is lost.
func lost(t testing.TB, lease *lock.Lease) {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(longest):
		t.Fatal("the holder was not told of the loss")
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until what holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(longest)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not seen within %v: %s", longest, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// queue lists the test's folder.
func queue(t testing.TB, c *zk.Conn) []string {
	t.Helper()
	return childrenOf(t, c, folderOf(t))
}

func childrenOf(t testing.TB, c *zk.Conn, dir string) []string {
	t.Helper()
	names, _, err := c.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatalf("children: %v", err)
	}
	return names
}

// id returns the session's id in the server's words.
func (s *Session) id() string {
	id, _ := s.current.Load().session()
	return fmt.Sprintf("0x%x", id)
}

// watchCount returns how many watches the session's waiters share.
func (s *Session) watchCount() int {
	g := s.current.Load()
	g.watches.mu.Lock()
	defer g.watches.mu.Unlock()
	return len(g.watches.byPath)
}

func (s *Session) currentLink() *link {
	g := s.current.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link
}

// connected reports whether the server has answered a request on the connection.
func (s *Session) connected() bool {
	g := s.current.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link != nil && g.link.served && g.outage.Err() == nil
}

// A proxy is a fault proxy in front of the server that also counts the events of watches, and knows the last session.
type proxy struct {
	*wire.Proxy
	server string
	events atomic.Int32

	mu       sync.Mutex
	greeting []byte // the server's last answer to a greeting
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	inner, err := wire.Listen(server, wire.ZooKeeper())
	must(t, err)
	t.Cleanup(func() { inner.Close() })
	p := &proxy{Proxy: inner, server: server}
	p.Set(wire.Trap{On: wire.ToClient, Match: p.observe}) // never springs
	return p
}

// observe looks at a frame from the server. After the length stands the xid, which is -1 for an event; in the answer to
// a greeting there stands the version, which is 0.
func (p *proxy) observe(frame []byte) bool {
	const xidAt, xidOfEvent, version = 4, -1, 0
	if len(frame) < xidAt+4 {
		return false
	}
	switch int32(binary.BigEndian.Uint32(frame[xidAt:])) {
	case xidOfEvent:
		p.events.Add(1)
	case version:
		p.mu.Lock()
		defer p.mu.Unlock()
		p.greeting = append([]byte(nil), frame...)
	}
	return false
}

// silence makes the network drop everything, on old and new connections, until p.Silence().
func (p *proxy) silence() { p.Silence(wire.ToServer, wire.ToClient) }

// requests returns how many requests the client has made, without heartbeats and pings.
func (p *proxy) requests() int { return p.Count(wire.ToServer) }

// cutAtNext breaks the connection at the n-th request from now, 1 being the next, before or after the server has seen
// it.
func (p *proxy) cutAtNext(n int, seen bool) *wire.Snare {
	do := wire.Cut
	if seen {
		do = wire.CutReply
	}
	return p.Set(wire.Trap{On: wire.ToServer, Skip: n - 1, Do: do})
}

// closeSession closes the client's ZooKeeper session behind its back, on a connection of its own.
func (p *proxy) closeSession(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	greeting := p.greeting
	p.mu.Unlock()
	timeout, session, password := greeting[8:12], greeting[12:20], greeting[20:40] // the password with its length
	hello := binary.BigEndian.AppendUint32(nil, 44)
	hello = append(hello, make([]byte, 4+8)...) // version, last zxid
	hello = append(hello, timeout...)
	hello = append(append(hello, session...), password...)
	closing := []byte{0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf5} // length, xid, opClose
	// The client reconnects as soon as the server takes the session from it, and may take it back before it is closed.
	eventually(t, "the session is closed", func() bool {
		conn, err := net.Dial("tcp", p.server)
		must(t, err)
		defer conn.Close()
		if _, err := conn.Write(append(hello, closing...)); err != nil {
			return false
		}
		answer := make([]byte, 20)
		_, err = io.ReadFull(conn, answer)
		return err == nil && binary.BigEndian.Uint64(answer[12:]) == 0
	})
}
