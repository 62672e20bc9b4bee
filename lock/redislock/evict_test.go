package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/stack"
)

// Evicted: the next one is in at once, its fence is above the eviction's, and that is above the evicted one's.
func TestEvict(t *testing.T) {
	both(t, 15*time.Second, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, name string) {
		evicted := acquire(t, l, "k")
		next := make(chan *lock.Lease, 1)
		go func() {
			defer close(next)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // less than the lease: it did not just run out
			defer cancel()
			lease, err := l.Acquire(ctx, "k", lock.Options{Owner: "app-2/next"})
			if err != nil {
				t.Error(err)
				return
			}
			next <- lease
		}()
		if name == "watchdog" {
			eventually(t, "the next one queues up", func() bool { return len(inspect(t, l, "k").Waiters) == 1 })
		}
		fence, err := lock.Evict(t.Context(), l, "k")
		if err != nil {
			t.Fatal(err)
		}
		if h := inspect(t, l, "k").Holder; name == "watchdog" && (h == nil || h.Who != "app-2/next") {
			t.Errorf("right after the eviction the holder is %+v; want it granted in the same step", h)
		}
		lease, ok := <-next
		if !ok {
			t.FailNow()
		}
		if evicted.Fence() >= fence || fence >= lease.Fence() {
			t.Errorf("evicted %d, fence %d, next %d: they must grow", evicted.Fence(), fence, lease.Fence())
		}
		if h := inspect(t, l, "k").Holder; h == nil || h.Who != "app-2/next" {
			t.Errorf("holder %+v, want the next one", h)
		}
		if name == "watchdog" {
			if loss := awaitLoss(t, evicted); !errors.Is(loss, lock.ErrLost) || !errors.Is(loss, lock.ErrTaken) {
				t.Errorf("at its renewal the evicted one was told %v, want ErrLost and ErrTaken", loss)
			}
		}
		if err := evicted.Release(); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("release of the evicted one: %v, want ErrTaken", err)
		}
		if lease.Err() != nil {
			t.Errorf("the release of the evicted one took the next one's: %v", lease.Err())
		}
		_ = lease.Release()
	})
}

// A free key can be evicted from too: a holder whose lease ran out while it was paused is kept from writing.
func TestEvictFromAFreeKey(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, _ redis.UniversalClient, l lock.Locker, _ string) {
		before := acquire(t, l, "k")
		_ = before.Release()
		fence, err := lock.Evict(t.Context(), l, "k")
		if err != nil {
			t.Fatal(err)
		}
		after := acquire(t, l, "k")
		if before.Fence() >= fence || fence >= after.Fence() {
			t.Errorf("before %d, fence %d, after %d: they must grow", before.Fence(), fence, after.Fence())
		}
	})
}

// An operator evicts also where Redis has no memory left.
func TestEvictFromAFullRedis(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, _ string) {
		evicted := acquire(t, l, "k")
		if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
			t.Fatal(err)
		}
		if fence, err := lock.Evict(t.Context(), l, "k"); err != nil || fence <= evicted.Fence() {
			t.Errorf("fence %d after %d, %v", fence, evicted.Fence(), err)
		}
	})
}
