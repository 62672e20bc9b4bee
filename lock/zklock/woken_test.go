package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
)

// slept is a rule under which the process was paused for longer than its session, with the news that the key is ours
// in its socket: it reads that first, and the timer that watches over the session has not had its turn yet.
type slept struct{ rule }

func (r slept) take(ctx context.Context, t *turn) (node, error) {
	own, err := r.rule.take(ctx, t)
	t.g.oversleep()
	return own, err
}

// oversleep makes the last proof of life older than the session.
func (g *generation) oversleep() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.alive = time.Now().Add(-g.timeout)
}

// A waiter that overslept its session gets no lease from it, whatever it reads.
func TestAWaiterThatOversleptGetsNoLease(t *testing.T) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	for _, r := range []rule{queued{}, raced{}} {
		s := dial(t, host)
		g, err := s.usable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		lease, err := g.attempt(t.Context(), slept{r}, keyOf(t), folderOf(t), lock.Options{})
		if !errors.Is(err, errAgain) || lease != nil {
			t.Errorf("%T: lease %v, %v, want to queue up again", r, lease, err)
		}
		if cause := context.Cause(g.over); !errors.Is(cause, lock.ErrExpired) {
			t.Errorf("%T: the session goes on: %v", r, cause)
		}
		eventually(t, "nothing is left", func() bool { return len(queue(t, c)) == 0 })
	}
}

// A holder that overslept its session and releases at once is told of the loss, also if there is no connection to ask.
func TestAHolderThatOversleptHasLostItsLease(t *testing.T) {
	for _, k := range kinds() {
		s := dial(t, servers.ZooKeeper(t))
		lease := acquire(t, k.open(s), 20*time.Second)
		s.mu.Lock()
		g := s.current
		s.mu.Unlock()
		g.oversleep()
		if err := lease.Release(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
			t.Errorf("%s: release: %v, want ErrLost because of ErrExpired", k.name, err)
		}
	}
}
