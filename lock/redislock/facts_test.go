package redislock_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
)

// The round trips are those that the comments of the types state, and that the catalogue promises.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ acquire, release int64 }{
		"lock": {1, 1}, "watchdog": {1, 1}, "rlock": {1, 1}, "setnx-expire": {2, 1}, "setnx-del": {1, 1},
		"setnx-watch": {1, 4},
	} {
		c, count, key := client(t, servers.Redis(t).Addr), new(tripCounter), locktest.FreshKey()
		l := open(t, name, c, 0)
		locktest.Release(t, acquire(t, l, key)) // connects and loads the scripts
		c.AddHook(count)
		held := acquire(t, l, key)
		acquired := count.n.Swap(0)
		_ = locktest.Try(t, l, key)
		tried := count.n.Swap(0)
		_, _ = lock.InspectAll(t.Context(), l, []string{key, "free"}) // loads its script
		count.n.Store(0)
		_, _ = lock.InspectAll(t.Context(), l, []string{key, "free"})
		inspected := count.n.Swap(0)
		locktest.Release(t, held)
		got := []int64{acquired, tried, inspected, count.n.Load()}
		if want := []int64{want.acquire, 1, 1, want.release}; !slices.Equal(got, want) {
			t.Errorf("%s: an acquisition, a try in vain, an inspection and a release took %d, want %d", name, got, want)
		}
	}
}

// A fence is the server's clock, or counted from the last one if that is ahead, as after the clock was set back. It
// lives until the clock is a day past it: so a fence that is forgotten is never larger than the next one, and fences
// also grow across the loss of all data.
func TestFencesStartFromTheClock(t *testing.T) {
	each(t, prefixes[:2], func(t *testing.T, name string, c *redis.Client, l lock.Locker) {
		const day = 24 * time.Hour
		before := acquire(t, l, "k").Fence()
		c.FlushAll(t.Context())
		for _, ahead := range []time.Duration{0, 2 * day, 3650 * day} {
			last := c.Time(t.Context()).Val().Add(ahead).UnixMicro()
			if ahead > 0 {
				c.Set(t.Context(), name+":fence", last, 0)
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
			forgotten := c.Time(t.Context()).Val().Add(c.PTTL(t.Context(), name+":fence").Val())
			past := forgotten.Sub(time.UnixMicro(int64(uint64(before) + driver.FenceRange)))
			if past < day-time.Second || past > day+patience {
				t.Errorf("%v ahead: forgotten when the clock is %v past it, want a day", ahead, past)
			}
		}
	})
}
