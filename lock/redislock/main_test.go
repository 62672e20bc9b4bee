package redislock_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

var servers stacktest.Shared

// A client whose server was killed for long enough asks once a second whether it is back. When the client is closed it sleeps that second out.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(servers.Around(m), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
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

// own is a stack for one test.
func own(t *testing.T) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// started ends the test if servers have not come about.
func started(t *testing.T, err error) {
	t.Helper()
	var missing *stack.MissingError
	switch {
	case errors.As(err, &missing) && os.Getenv("REQUIRE_BACKENDS") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// both runs a test for each lock with a lease of its own; name begins its keys.
func both(t *testing.T, lease time.Duration, test func(t *testing.T, s *stack.Server, c redis.UniversalClient, l lock.Locker, name string)) {
	for name, open := range map[string]func(testing.TB, *stack.Server) lock.Locker{
		"setnx": func(t testing.TB, s *stack.Server) lock.Locker { return setnx(t, s, lease) },
		"watchdog": func(t testing.TB, s *stack.Server) lock.Locker {
			return watchdog(t, s, redislock.WatchdogOptions{Lease: lease})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := stacktest.Redis(t)
			test(t, s, client(t, s), open(t, s), map[string]string{"setnx": "lock", "watchdog": "watchdog"}[name])
		})
	}
}

// closer closes a lock when the test ends.
func closer[L interface{ Close() error }](t testing.TB, l L) L {
	t.Cleanup(func() { l.Close() })
	return l
}

func acquire(t *testing.T, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := l.Acquire(ctx, key, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release() })
	return lease
}

// awaitLoss returns when the lease has ended, and whether its key was already given away on the server.
func awaitLoss(t *testing.T, lease *lock.Lease) error {
	t.Helper()
	select {
	case <-lease.Done():
		return lease.Err()
	case <-time.After(20 * time.Second):
		t.Fatal("no loss was signalled")
		return nil
	}
}

func mentions(err error, what string) bool { return err != nil && strings.Contains(err.Error(), what) }

// eventually polls until what is true.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(5 * time.Millisecond) { // only a polling interval
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
