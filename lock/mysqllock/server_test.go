package mysqllock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/stacktest"
)

// The server is killed under a holder and a waiter, and comes back.
func TestServerGoneAndBack(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		server := stacktest.Server(t, "mysql")
		migrate(t, server.URL)
		const lease = time.Minute
		l, other := k.open(t, server.URL, lease), k.open(t, server.URL, lease)
		held := acquire(t, l, "k")
		release(t, acquire(t, l, "idle"))
		waited := make(chan error, 1)
		go func() {
			lease, err := other.Acquire(t.Context(), "k", lock.Options{})
			if err == nil {
				_ = lease.Release()
			}
			waited <- err
		}()
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-waited:
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("a waiter got %v, want ErrDown", err)
			}
		case <-time.After(soon):
			t.Error("a waiter was not told that the server is gone")
		}
		for _, once := range []bool{false, true} {
			asked := time.Now()
			if _, err := l.Acquire(t.Context(), "other", lock.Options{TryOnce: once}); !errors.Is(err, lock.ErrDown) {
				t.Errorf("err = %v, want ErrDown", err)
			}
			if took := time.Since(asked); took > soon {
				t.Errorf("took %v", took)
			}
		}
		if k.name != table.name {
			if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("loss: %v, want ErrExpired", err)
			}
		}
		if err := held.Release(); err == nil {
			t.Error("a release that could not be told says that all is well")
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := acquire(t, l, "k") // within less than a lease: the release was made up for
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
	})
}

// A server that hangs is said to be down, also to somebody who waits for another, and a holder is told before the server can
// let others in.
func TestServerPaused(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		server := stacktest.Server(t, "mysql")
		migrate(t, server.URL)
		const lease = 4 * time.Second
		l := k.open(t, server.URL, lease)
		held := acquire(t, l, "held")
		release(t, acquire(t, l, "warm"))
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"warm", "new"} {
			asked := time.Now()
			if _, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) {
				t.Errorf("%s: %v, want ErrDown", key, err)
			}
			if took := time.Since(asked); took > soon {
				t.Errorf("%s: took %v", key, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := time.Now()
		if _, err := l.Acquire(ctx, "warm", lock.Options{}); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrDown) {
			t.Errorf("a bounded wait: %v", err)
		}
		if took := time.Since(asked); took > soon {
			t.Errorf("a bounded wait of 1 s took %v", took)
		}
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("loss: %v, want ErrExpired", err)
		}
		released := time.Now()
		_ = held.Release()
		if took := time.Since(released); took > soon {
			t.Errorf("release took %v", took)
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"held", "warm", "new"} {
			free(t, l, key)
		}
	})
}
