package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// soon is when an answer has come that takes 3 s at most, on a busy computer.
const soon = 10 * time.Second

// Without a server there is an answer (within 3 s, if the computer has time for us), and a server that returns is used.
func TestServerStoppedAndStarted(t *testing.T) {
	for _, row := range []struct {
		name       string
		kind       kind
		down, back func(t *testing.T, s *stack.Server)
	}{
		{
			"killed", kinds()[0],
			func(t *testing.T, s *stack.Server) { must(t, s.Kill()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Restart(t.Context())) },
		},
		{
			"killed, the herd", kinds()[1],
			func(t *testing.T, s *stack.Server) { must(t, s.Kill()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Restart(t.Context())) },
		},
		{
			"paused", kinds()[0],
			func(t *testing.T, s *stack.Server) { must(t, s.Pause()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Resume()) },
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := stacktest.Server(t, stack.ZooKeeper)
			s := brief(t, server.URL)
			q := row.kind.open(s)
			holder := acquire(t, q, 20*time.Second)
			waited := make(chan error, 1)
			go func() { _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); waited <- err }()
			eventually(t, "one waits", func() bool { return s.watchesNow() == 1 })
			row.down(t, server)
			from := time.Now()
			select {
			case err := <-waited:
				if !errors.Is(err, lock.ErrDown) {
					t.Errorf("waiter: %v", err)
				}
			case <-time.After(soon):
				t.Fatalf("a waiter was not told within %v", soon)
			}
			t.Logf("waiter told after %v", time.Since(from))
			for range 3 {
				from = time.Now()
				_, err := q.Acquire(t.Context(), keyOf(t), lock.Options{})
				if took := time.Since(from); !errors.Is(err, lock.ErrDown) || took > soon {
					t.Errorf("acquire took %v: %v", took, err)
				}
			}
			if err := s.Check(t.Context()); !errors.Is(err, lock.ErrDown) {
				t.Errorf("check: %v", err)
			}
			select {
			case <-holder.Done():
			case <-time.After(soon):
				t.Error("the holder was not told")
			}
			if err := holder.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("release: %v", err)
			}
			row.back(t, server)
			from = time.Now()
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				lease, err := q.Acquire(ctx, keyOf(t), lock.Options{})
				cancel()
				if err == nil {
					t.Logf("back after %v", time.Since(from))
					release(t, lease)
					break
				}
				if time.Since(from) > 30*time.Second {
					t.Fatalf("not back within 30 s: %v", err)
				}
			}
			must(t, s.Check(t.Context()))
			// A client of its own, begun now: a greeting that arrives while ZooKeeper starts may get no answer ever, and the plain library
			// then waits for ten times two thirds of the session timeout.
			c := raw(t, server.URL)
			eventually(t, "nothing left behind", func() bool {
				names, _, err := c.Children(row.kind.folder(t))
				return err == nil && len(names) == 0 || errors.Is(err, zk.ErrNoNode)
			})
		})
	}
}
