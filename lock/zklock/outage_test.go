package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// Without a server there is an answer within 3 s, and a server that returns is used within 10 s.
func TestServerStoppedAndStarted(t *testing.T) {
	for _, row := range []struct {
		name       string
		down, back func(t *testing.T, s *stack.Server)
	}{
		{
			"killed",
			func(t *testing.T, s *stack.Server) { must(t, s.Kill()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Restart(t.Context())) },
		},
		{
			"paused",
			func(t *testing.T, s *stack.Server) { must(t, s.Pause()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Resume()) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := stacktest.Server(t, stack.ZooKeeper)
			s := dial(t, server.URL)
			q := NewSequential(s)
			holder := acquire(t, q, 5*time.Second)
			waited := make(chan error, 1)
			go func() { _, err := q.Acquire(t.Context(), keyOf(t)); waited <- err }()
			c := raw(t, server.URL)
			eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
			row.down(t, server)
			from := time.Now()
			select {
			case err := <-waited:
				if !errors.Is(err, lock.ErrDown) {
					t.Errorf("waiter: %v", err)
				}
			case <-time.After(3 * time.Second):
				t.Fatal("a waiter was not told within 3 s")
			}
			t.Logf("waiter told after %v", time.Since(from))
			for range 3 {
				from = time.Now()
				_, err := q.Acquire(t.Context(), keyOf(t))
				if took := time.Since(from); !errors.Is(err, lock.ErrDown) || took > 3*time.Second {
					t.Errorf("acquire took %v: %v", took, err)
				}
			}
			if err := s.Check(t.Context()); !errors.Is(err, lock.ErrDown) {
				t.Errorf("check: %v", err)
			}
			select {
			case <-holder.Done():
			case <-time.After(3 * time.Second):
				t.Error("the holder was not told")
			}
			if err := holder.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("release: %v", err)
			}
			row.back(t, server)
			from = time.Now()
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				lease, err := q.Acquire(ctx, keyOf(t))
				cancel()
				if err == nil {
					t.Logf("back after %v", time.Since(from))
					release(t, lease)
					break
				}
				if time.Since(from) > 10*time.Second {
					t.Fatalf("not back within 10 s: %v", err)
				}
			}
			must(t, s.Check(t.Context()))
			eventually(t, "nothing left behind", func() bool { return len(queue(t, c)) == 0 })
		})
	}
}
