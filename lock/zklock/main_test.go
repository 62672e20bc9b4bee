package zklock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/stack/stacktest"
)

var servers stacktest.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Around(m)) }

// dial makes a session that a busy computer does not lose, closed at the end of the test.
func dial(t testing.TB, host string) *Session {
	t.Helper()
	return open(t, Config{Hosts: []string{host}, SessionTimeout: 10 * time.Second})
}

// brief makes a session of 2 s, for who wants to lose it.
func brief(t testing.TB, host string) *Session {
	t.Helper()
	return open(t, Config{Hosts: []string{host}, SessionTimeout: 2 * time.Second})
}

// open makes a session and waits until it is connected: a server that has just been started may take longer for that than Acquire waits.
func open(t testing.TB, config Config) *Session {
	t.Helper()
	s, err := Dial(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	waitUntil(t, "connected", time.Minute, func() bool { return s.State() == Connected })
	return s
}

// raw is a plain client of the server, past every proxy.
func raw(t testing.TB, host string) *zk.Conn {
	t.Helper()
	quiet := zk.WithLogger(debugLog{slog.New(slog.DiscardHandler)})
	conn, events, err := zk.Connect([]string{host}, 5*time.Second, zk.WithLogInfo(false), quiet)
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

// keyOf is a key of the test's own: tests share a server.
func keyOf(t testing.TB) string { return t.Name() }

func folderOf(t testing.TB) string { return DefaultRoot + "/" + escape(keyOf(t)) }

func acquire(t testing.TB, l lock.Locker, wait time.Duration) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	lease, err := l.Acquire(ctx, keyOf(t), lock.Options{})
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return lease
}

func release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// eventually polls until what holds, for 15 s.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	waitUntil(t, what, 15*time.Second, holds)
}

func waitUntil(t testing.TB, what string, patience time.Duration, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not seen within %v: %s", patience, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// queue lists the test's folder.
func queue(t testing.TB, c *zk.Conn) []string {
	t.Helper()
	return childrenOf(t, c, folderOf(t))
}

func nodesIn(t testing.TB, c *zk.Conn, dir string) int {
	t.Helper()
	return len(childrenOf(t, c, dir))
}

func childrenOf(t testing.TB, c *zk.Conn, dir string) []string {
	t.Helper()
	names, _, err := c.Children(dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatalf("children: %v", err)
	}
	return names
}

// fourLetters asks the server a four-letter word.
func fourLetters(t testing.TB, host, word string) string {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		t.Fatal(err)
	}
	reply, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(reply)
}

// mntr is one figure of the server.
func mntr(t testing.TB, host, name string) (n int) {
	t.Helper()
	for line := range strings.Lines(fourLetters(t, host, "mntr")) {
		if rest, ok := strings.CutPrefix(line, name+"\t"); ok {
			fmt.Sscan(rest, &n)
			return n
		}
	}
	t.Fatalf("mntr does not tell %s", name)
	return 0
}

// A hold is one entry of a history: all of one computer's monotonic clock.
type hold struct {
	from, to time.Duration
	fence    lock.Fence
}

// A history records holds in the order in which they began.
type history struct {
	mu    sync.Mutex
	start time.Time
	holds []hold
}

func (h *history) during(fence lock.Fence, work func()) {
	h.mu.Lock()
	i := len(h.holds)
	h.holds = append(h.holds, hold{from: time.Since(h.start), fence: fence})
	h.mu.Unlock()
	work()
	h.mu.Lock()
	h.holds[i].to = time.Since(h.start)
	h.mu.Unlock()
}

// judge is nil if no two holds overlap and fences grow. As the fence of a node is the transaction that created it, that
// also says that the holders came first in, first out.
func (h *history) judge() error {
	for i := 1; i < len(h.holds); i++ {
		before, next := h.holds[i-1], h.holds[i]
		if next.from < before.to {
			return fmt.Errorf("hold %d began at %v, before hold %d ended at %v", i, next.from, i-1, before.to)
		}
		if next.fence <= before.fence {
			return fmt.Errorf("hold %d has fence %d, hold %d before it had %d", i, next.fence, i-1, before.fence)
		}
	}
	return nil
}

func (w *watching) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byPath)
}

func (s *Session) watchesNow() int {
	s.mu.Lock()
	g := s.current
	s.mu.Unlock()
	return g.watching.count()
}

func (s *Session) linkNow() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.link
}
