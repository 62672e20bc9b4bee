package zklock

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

// The contract is tested by lock/locktest: see conformance_test.go. The other tests of this package are for what that
// suite cannot express.

// Servers has the one ZooKeeper of this package's tests, also of the example, which is outside the package. Tests that
// attack a server start their own.
var Servers servertest.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(Servers.Around(m, server.ZooKeeper)) }

// Both locks of this package, for what must be true of both.
var recipes = []recipe{sequential{}, ephemeral{}}

func on(s *Session, r recipe) locker { return locker{s, r} }

// rootOf is the Root of a test and its subtests: tests share a server, but no node.
func rootOf(t testing.TB) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	return "/" + test
}

// key is the key of all tests.
const key = "key"

// dial makes a session that a busy computer does not lose, closed at the end of the test.
func dial(t testing.TB, host string) *Session {
	t.Helper()
	return open(t, Config{Hosts: []string{host}, SessionTimeout: 30 * time.Second})
}

// open makes a session and waits until it is connected: a server that has just been started may take longer for that
// than Acquire waits.
func open(t testing.TB, config Config) *Session {
	t.Helper()
	s := begin(t, config)
	locktest.Eventually(t, "connected", s.isConnected)
	return s
}

func begin(t testing.TB, config Config) *Session {
	t.Helper()
	config.Root = cmp.Or(config.Root, rootOf(t))
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, 10*time.Second)
	s, err := Dial(config)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// isConnected reports whether the server has answered a request on the connection.
func (s *Session) isConnected() bool {
	g := s.current.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.link != nil && g.serves(g.link) && g.outage.Err() == nil
}

// watchCount returns how many watches the session's waiters share.
func (s *Session) watchCount() int {
	g := s.current.Load()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.link == nil {
		return 0
	}
	return len(g.link.watches)
}

// ours are the credentials of the tests that have some.
const ours = "stock:secret"

// connect returns a plain client of the server, with our credentials.
func connect(host string) (conn *zk.Conn, done func(), err error) {
	quiet := zk.WithLogger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug))
	conn, events, err := zk.Connect([]string{host}, 10*time.Second, zk.WithLogInfo(false), quiet)
	if err != nil {
		return nil, nil, err
	}
	done = func() {
		conn.Close()
		for range events {
		}
	}
	return conn, done, conn.AddAuth("digest", []byte(ours))
}

// raw is connect for a test, past every proxy.
func raw(t testing.TB, host string) *zk.Conn {
	t.Helper()
	conn, done, err := connect(host)
	must(t, err)
	t.Cleanup(done)
	return conn
}

func acquire(t testing.TB, l lock.Locker) *lock.Lease {
	t.Helper()
	return locktest.Acquire(t, l, key, "holder")
}

func acquireLater(t testing.TB, l lock.Locker) <-chan *lock.Lease {
	return locktest.Later(t, l, key, "waiter")
}

// refused returns why an acquisition fails. It asks again where it fails because a busy computer keeps the server from
// answering in time.
func refused(t testing.TB, l lock.Locker, o lock.Options) (err error) {
	t.Helper()
	locktest.Eventually(t, "an answer", func() bool {
		_, err = l.Acquire(t.Context(), key, o)
		return !errors.Is(err, errNoConnection)
	})
	return err
}

// evict asks again, as refused does.
func evict(t testing.TB, l driver.Evictor) (fence lock.Fence) {
	t.Helper()
	var err error
	locktest.Eventually(t, "an answer", func() bool {
		fence, err = l.Evict(t.Context(), key)
		return !errors.Is(err, errNoConnection)
	})
	must(t, err)
	return fence
}

// saysDown checks that err is a DownError whose reason begins with want, and does not say that the key is held.
func saysDown(t testing.TB, what any, err error, want string) {
	t.Helper()
	var down *driver.DownError
	if !errors.As(err, &down) || errors.Is(err, lock.ErrHeld) ||
		!strings.HasPrefix(driver.Coded(down.Reason, down.Values), want) {
		t.Errorf("%v: %v, want %s", what, err, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// nodes returns the paths of the nodes in the key's folder, in their order.
func nodes(t testing.TB, c *zk.Conn, r recipe) (paths []string) {
	t.Helper()
	dir := rootOf(t) + "/" + key + r.suffix()
	names, _, err := c.Children(dir)
	must(t, unlessGone(err))
	for _, n := range parseQueue(names) {
		paths = append(paths, dir+"/"+n.name)
	}
	if len(paths) == 0 && len(names) > 0 {
		paths = append(paths, dir+"/"+names[0])
	}
	return paths
}

func proxied(t testing.TB, server string) *wire.Proxy {
	t.Helper()
	p, err := wire.Listen(server, wire.ZooKeeper())
	must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// A logged is a log that a test reads.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// must returns the log, which must contain what, and no secret.
func (l *logged) must(t testing.TB, what string) string {
	t.Helper()
	var text string
	locktest.Eventually(t, fmt.Sprintf("%q in the log", what), func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		text = l.text.String()
		return strings.Contains(text, what)
	})
	for _, secret := range []string{"secret", "guessed"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log tells a secret:\n%s", text)
		}
	}
	return text
}
