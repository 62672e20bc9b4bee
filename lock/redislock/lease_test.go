package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func TestMaximumHold(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	w := watchdog(t, s, redislock.WatchdogOptions{Lease: 3 * time.Second, MaxHold: time.Second})
	var expired *lock.ExpiredError
	if err := awaitLoss(t, acquire(t, w, "k")); !errors.As(err, &expired) || !expired.Maximum {
		t.Errorf("err = %v, want the maximum", err)
	}
	acquire(t, watchdog(t, s, redislock.WatchdogOptions{}), "k") // the hung holder does not keep it
}

// A key that is deleted or taken under a watchdog is noticed at the next renewal.
func TestTheWatchdogNotices(t *testing.T) {
	t.Parallel()
	flush := func(ctx context.Context, c redis.UniversalClient) { c.FlushAll(ctx) }
	rob := func(ctx context.Context, c redis.UniversalClient) { c.Set(ctx, "watchdog:{k}", "other", 0) }
	for name, row := range map[string]struct {
		harm func(context.Context, redis.UniversalClient)
		want error
	}{
		"the key is gone (FLUSHALL, eviction)": {flush, lock.ErrExpired},
		"another took it":                      {rob, lock.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stacktest.Redis(t)
			c := client(t, s)
			lease := acquire(t, watchdog(t, s, redislock.WatchdogOptions{Lease: 3 * time.Second}), "k")
			row.harm(t.Context(), c)
			if err := awaitLoss(t, lease); !errors.Is(err, lock.ErrLost) || !errors.Is(err, row.want) {
				t.Errorf("err = %v, want ErrLost and %v", err, row.want)
			}
			before := c.Get(t.Context(), "watchdog:{k}").Val()
			_ = lease.Release()
			if after := c.Get(t.Context(), "watchdog:{k}").Val(); after != before {
				t.Errorf("the release changed a key that was not its own: %q to %q", before, after)
			}
		})
	}
}

// Fences grow across the loss of all data: they start from the clock.
func TestFencesGrowAcrossAnEmptyRestart(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		const ahead = 4_000_000_000_000_001 // as if the clock had been set back by decades
		c.Set(t.Context(), name+":{k}:fence", ahead, 0)
		step := lock.Fence(1)
		if ranger, ok := l.(lock.FenceRanger); ok {
			step = lock.Fence(ranger.FenceRange())
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

// A fence that is forgotten is never larger than the next one: a fence ahead of the clock lives until the clock is a
// day past it.
func TestAFenceIsForgottenOnlyWhenTheClockIsPastIt(t *testing.T) {
	t.Parallel()
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		const day = 24 * time.Hour
		fence := name + ":{k}:fence"
		for what, ahead := range map[string]time.Duration{
			"by the clock": 0,
			"counted, because the clock was set back by two days": 2 * day,
			"by a decade": 3650 * day,
		} {
			now := c.Time(t.Context()).Val()
			if ahead > 0 {
				c.Set(t.Context(), fence, now.Add(ahead).UnixMicro(), 0)
			}
			lease := acquire(t, l, "k")
			until := c.Time(t.Context()).
				Val().
				Add(c.PTTL(t.Context(), fence).Val())
				// by which clock the fence is forgotten
			last := time.UnixMicro(int64(lease.Fence()) + int64(span(l)))
			if early := last.Add(day).Sub(until); early > time.Second {
				t.Errorf(
					"%s: forgotten %v before the clock is a day past it: the next fence would be smaller", what,
					early,
				)
			} else if early < -time.Minute {
				t.Errorf("%s: it lives %v longer than a day after the clock is past it", what, -early)
			}
			_ = lease.Release()
			c.Del(t.Context(), fence)
		}
		// A fence that was made of the clock is forgotten, as after a day: the next one is larger.
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

// A queue whose waiters have all died does not stay for a day.
func TestAQueueOfTheDeadIsDeleted(t *testing.T) {
	t.Parallel()
	s := stacktest.Redis(t)
	c, w := client(t, s), watchdog(t, s, redislock.WatchdogOptions{})
	held := acquire(t, w, "k")
	got := acquireLater(t, w, "k")
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
