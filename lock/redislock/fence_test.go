package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
)

// A fence is the server's clock, or counted from the last one if that is ahead, as after the clock was set back. It
// lives until the clock is a day past it: so a fence that is forgotten is never larger than the next one, and fences
// also grow across the loss of all data.
func TestFencesStartFromTheClock(t *testing.T) {
	t.Parallel()
	each(t, prefixes[:2], 0, func(t *testing.T, _ *server.Server, c *redis.Client, l lock.Locker) {
		const day = 24 * time.Hour
		name := prefix(t) + ":{k}:fence"
		before := acquire(t, l, "k").Fence()
		c.FlushAll(t.Context())
		for _, ahead := range []time.Duration{0, 2 * day, 3650 * day} {
			last := c.Time(t.Context()).Val().Add(ahead).UnixMicro()
			if ahead > 0 {
				c.Set(t.Context(), name, last, 0)
			}
			for n := range uint64(3) {
				lease := acquire(t, l, "k")
				if want := lock.Fence(uint64(last) + (n+1)*driver.FenceRange); ahead > 0 && lease.Fence() != want {
					t.Errorf("%v ahead: fence %d, want %d", ahead, lease.Fence(), want)
				}
				if lease.Fence() <= before {
					t.Errorf("fence %d after %d", lease.Fence(), before)
				}
				locktest.Release(t, lease)
				before = lease.Fence()
			}
			forgotten := c.Time(t.Context()).Val().Add(c.PTTL(t.Context(), name).Val())
			past := forgotten.Sub(time.UnixMicro(int64(uint64(before) + driver.FenceRange)))
			if past < day-time.Second || past > day+patience {
				t.Errorf("%v ahead: forgotten when the clock is %v past it, want a day", ahead, past)
			}
		}
	})
}
