package redislock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/stack"
)

// A fence grows over the loss of all data: it is seeded by the clock.
func TestFencesGrowAcrossAnEmptyRestart(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		first := acquire(t, l, "k")
		c.FlushAll(t.Context())
		second := acquire(t, l, "k")
		if second.Fence() <= first.Fence() {
			t.Errorf("fence %d after %d", second.Fence(), first.Fence())
		}
	})
}

func TestFencesGrowWhenTheClockIsBehind(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		const ahead = 4_000_000_000_000_000 // as if the clock had been set back by decades
		c.Set(t.Context(), name+":{k}:fence", ahead, 0)
		step := lock.Fence(1)
		if spanned, ok := l.(lock.Spanned); ok {
			step = lock.Fence(spanned.Span())
		}
		for i := range lock.Fence(3) {
			lease := acquire(t, l, "k")
			if want := ahead + (i+1)*step; lease.Fence() != want {
				t.Errorf("fence = %d, want %d", lease.Fence(), want)
			}
			_ = lease.Release()
		}
	})
}
