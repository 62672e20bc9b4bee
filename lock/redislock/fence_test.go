package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
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
		if spanned, ok := l.(lock.FenceRanger); ok {
			step = lock.Fence(spanned.FenceRange())
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

// A fence that is forgotten is never larger than the next one: what is ahead of the clock lives until the clock is past
// it, and a day.
func TestAFenceIsForgottenOnlyWhenTheClockIsPastIt(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		const day = 24 * time.Hour
		fence := name + ":{k}:fence"
		for what, ahead := range map[string]time.Duration{
			"by the clock": 0, "counted, because the clock was set back by two days": 2 * day, "by a decade": 3650 * day,
		} {
			now := c.Time(t.Context()).Val()
			if ahead > 0 {
				c.Set(t.Context(), fence, now.Add(ahead).UnixMicro(), 0)
			}
			lease := acquire(t, l, "k")
			until := c.Time(t.Context()).Val().Add(c.PTTL(t.Context(), fence).Val()) // by which clock the fence is forgotten
			last := time.UnixMicro(int64(lease.Fence()) + int64(span(l)))
			if early := last.Add(day).Sub(until); early > time.Second {
				t.Errorf("%s: forgotten %v before the clock is a day past it: the next fence would be smaller", what, early)
			} else if early < -time.Minute {
				t.Errorf("%s: it lives %v longer than a day after the clock is past it", what, -early)
			}
			_ = lease.Release()
			c.Del(t.Context(), fence)
		}
		// What was by the clock is forgotten, as after a day: the next one is larger.
		before := acquire(t, l, "k")
		_ = before.Release()
		c.PExpire(t.Context(), fence, -time.Second)
		if after := acquire(t, l, "k"); after.Fence() <= before.Fence() {
			t.Errorf("fence %d after %d, which was forgotten", after.Fence(), before.Fence())
		}
	})
}

func span(l lock.Locker) uint64 {
	if s, ok := l.(lock.FenceRanger); ok {
		return s.FenceRange()
	}
	return 1
}

// A queue that everybody has left for dead does not stay for a day.
func TestAQueueOfTheDeadIsDeleted(t *testing.T) {
	s := stacktest.Redis(t)
	c, w := client(t, s), watchdog(t, s, redislock.WatchdogOptions{})
	held := acquire(t, w, "k")
	got := wants(t, w, "k")
	awaitQueue(t, c, 1)
	for _, name := range []string{"watchdog:{k}:queue", "watchdog:{k}:seen"} {
		if ttl := c.PTTL(t.Context(), name).Val(); ttl <= 10*time.Second || ttl > time.Minute {
			t.Errorf("%s lives for %v, want a minute", name, ttl)
		}
	}
	_ = held.Release()
	if lease := <-got; lease != nil {
		_ = lease.Release()
	}
}
