package redislock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

var (
	servers       stacktest.Shared
	masterServers masterPool
)

func TestMain(m *testing.M) {
	// The tests wait for leases and servers much more than they compute: let more of them run than there are CPUs.
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		if err := f.Value.Set("8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// A client whose server was killed for long enough asks once a second whether it is back. When the client is closed
	// it sleeps that second out.
	goleak.VerifyTestMain(servers.Around(stopMasters{m}),
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// stopMasters runs the tests and then stops the shared masters.
type stopMasters struct{ m *testing.M }

func (s stopMasters) Run() int {
	code := s.m.Run()
	if err := masterServers.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func client(t testing.TB, s *stack.Server) redis.UniversalClient {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: s.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
	})
	t.Cleanup(func() { c.Close() })
	return c
}

func setnx(t testing.TB, s *stack.Server, lease time.Duration) *redislock.SetNX {
	l := redislock.NewSetNX(client(t, s), redislock.SetNXOptions{Lease: lease})
	t.Cleanup(func() { l.Close() })
	return l
}

func watchdog(t testing.TB, s *stack.Server, o redislock.WatchdogOptions) *redislock.Watchdog {
	w := redislock.NewWatchdog(client(t, s), o)
	t.Cleanup(func() { w.Close() })
	return w
}

func rlock(t testing.TB, s *stack.Server, o redislock.RLockOptions) *redislock.RLock {
	l := redislock.NewRLock(client(t, s), o)
	t.Cleanup(func() { l.Close() })
	return l
}

// both runs a test on SetNX and on Watchdog, each with a server of its own; name is the prefix of its keys.
func both(
	t *testing.T,
	lease time.Duration,
	test func(t *testing.T, s *stack.Server, c redis.UniversalClient, l lock.Locker, name string),
) {
	for name, open := range map[string]func(testing.TB, *stack.Server) lock.Locker{
		"setnx": func(t testing.TB, s *stack.Server) lock.Locker { return setnx(t, s, lease) },
		"watchdog": func(t testing.TB, s *stack.Server) lock.Locker {
			return watchdog(t, s, redislock.WatchdogOptions{Lease: lease})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stacktest.Redis(t)
			test(t, s, client(t, s), open(t, s), map[string]string{"setnx": "lock", "watchdog": "watchdog"}[name])
		})
	}
}

// closer closes l when the test ends.
func closer[L interface{ Close() error }](t testing.TB, l L) L {
	t.Cleanup(func() { l.Close() })
	return l
}

// patience is how long a test waits for what must come, on a computer that has other work.
const patience = time.Minute

// acquire asks again where a busy computer keeps a server from answering in time, as a client would.
func acquire(t *testing.T, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := l.Acquire(ctx, key, lock.Options{})
	for errors.Is(err, lock.ErrDown) && ctx.Err() == nil {
		lease, err = l.Acquire(ctx, key, lock.Options{})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release() })
	return lease
}

// awaitLoss waits until the lease has ended, and returns why.
func awaitLoss(t *testing.T, lease *lock.Lease) error {
	t.Helper()
	select {
	case <-lease.Done():
		return lease.Err()
	case <-time.After(patience):
		t.Fatal("no loss was signalled")
		return nil
	}
}

func mentions(err error, what string) bool { return err != nil && strings.Contains(err.Error(), what) }

// eventually polls until is reports true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) { // only a polling interval
		if time.Now().After(deadline) {
			t.Fatalf("it never came to be that %s", what)
		}
	}
}

func pause(t *testing.T, s *stack.Server) {
	t.Helper()
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
}

func resume(t *testing.T, s *stack.Server) {
	t.Helper()
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
}
