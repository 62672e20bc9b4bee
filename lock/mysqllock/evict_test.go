package mysqllock

import (
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/stock/lock"
)

func evict(t testing.TB, l lock.Locker, key string) lock.Fence {
	t.Helper()
	fence, err := lock.Evict(t.Context(), l, key)
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

// The holder loses the key to the one who waits, and with all the fences that a process hands out under one lease lies below the new one, which
// the next holder's is not below.
func TestEvictLetsTheNextOneIn(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.open(t, dsn, 3*time.Second)
		held := acquire(t, l, "k")
		waiter := k.open(t, dsn, 0)
		got := make(chan *lock.Lease, 1)
		go func() {
			lease, err := waiter.Acquire(t.Context(), "k", lock.Options{})
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		if k.name != table.name {
			eventually(t, 10*time.Second, "it waits", func() bool { return len(inspect(t, l, "k").Waiters) == 1 })
		}
		fence := evict(t, k.open(t, dsn, 0), "k")
		if most := held.Fence() + span - 1; fence <= most {
			t.Errorf("fence %d, those of the evicted go up to %d", fence, most)
		}
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrTaken) {
			t.Errorf("loss: %v", err)
		}
		next := <-got
		if next == nil {
			t.FailNow()
		}
		if next.Fence() < fence {
			t.Errorf("the next holder's fence is %d, below %d", next.Fence(), fence)
		}
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
		if h := inspect(t, l, "k").Holder; h == nil || h.Fence != next.Fence() {
			t.Errorf("%+v, want the next holder: the evicted one's release must not touch it", h)
		}
		release(t, next)
	})
}

// Where nobody holds, nobody is harmed, and the fence goes up all the same.
func TestEvictNobody(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		l := k.open(t, database(t), 0)
		first := evict(t, l, "k")
		held := acquire(t, l, "k")
		other := acquire(t, l, "another")
		release(t, held)
		second := evict(t, l, "k")
		if first == lock.NoFence || held.Fence() < first || second <= held.Fence() {
			t.Errorf("fences %d, then %d of a holder, then %d", first, held.Fence(), second)
		}
		if err := other.Err(); err != nil {
			t.Errorf("the holder of another key: %v", err)
		}
		free(t, l, "k")
	})
}

// A process that is frozen is evicted long before its lease is over, and knows when it goes on.
func TestEvictAFrozenHolder(t *testing.T) {
	const lease = 3 * time.Second // of the table: what the frozen one needs to learn of it, not how long the next one waits
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		h := hold(t, k, dsn, lease)
		if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		l := k.open(t, dsn, 0)
		fence := evict(t, l, "k")
		if next := acquire(t, l, "k"); fence <= h.fence || next.Fence() < fence {
			t.Errorf("fences %d, evicted by %d, then %d", h.fence, fence, next.Fence())
		}
		if err := h.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if line, err := h.output.ReadString('\n'); !strings.HasPrefix(line, "lost") {
			t.Errorf("the evicted one says %q, %v", line, err)
		}
	})
}

// A row without a time limit, whose holder crashed, needs no hand in the database any more.
func TestEvictFromARowForEver(t *testing.T) {
	dsn := database(t)
	h := hold(t, noExpiry, dsn, 0)
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l := table.open(t, dsn, 0)
	if s := inspect(t, l, "k"); s.Holder == nil || s.Holder.Remaining != lock.Forever {
		t.Errorf("%+v, want a holder for ever", s.Holder)
	}
	fence := evict(t, l, "k")
	if next := acquire(t, l, "k"); fence <= h.fence || next.Fence() < fence {
		t.Errorf("fences %d, evicted by %d, then %d", h.fence, fence, next.Fence())
	}
}
