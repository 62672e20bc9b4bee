package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
)

// A server that is gone is said to be down soon, also to those who wait, and is used again when it is back.
func TestServerGoneAndBack(t *testing.T) {
	both(t, 2*time.Second, func(t *testing.T, s *stack.Server, _ redis.UniversalClient, l lock.Locker, name string) {
		acquire(t, l, "k")
		waited := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), "k", lock.Options{})
			if err == nil {
				_ = lease.Release()
			}
			waited <- err
		}()
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-waited:
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("a waiter got %v, want ErrDown", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("a waiter was not told that the server is gone")
		}
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) {
			t.Errorf("err = %v, want ErrDown", err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = acquire(t, l, "k").Release()
	})
}

// A Redis that is killed with a lock held and comes back with its data still has the key. The release that could not reach it
// is made up for, so that nobody waits for a lease of a minute to run out.
func TestAReleaseThatFailedIsMadeUpFor(t *testing.T) {
	s, err := stack.Start(t.Context(), stack.Options{Want: []stack.Kind{stack.Redis}, AOF: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	server := s.Server("redis")
	if server == nil || server.StandIn != "" {
		t.Skip("needs a real redis-server")
	}
	c := client(t, server)
	w := watchdog(t, server, redislock.WatchdogOptions{Lease: time.Minute})
	lease := acquire(t, w, "k")
	c.ConfigSet(t.Context(), "appendfsync", "always")
	c.Set(t.Context(), "flush", "", 0) // forces what came before to disk
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); !errors.Is(err, lock.ErrDown) {
		t.Errorf("release: %v, want ErrDown", err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	next, err := w.Acquire(ctx, "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if next.Fence() <= lease.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), lease.Fence())
	}
	_ = next.Release()
}
