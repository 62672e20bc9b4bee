package redislock_test

import (
	"slices"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/servertest"
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

// An eviction grants the key to the next in the queue in the same step, also where Redis has no memory left.
func TestEvictGrants(t *testing.T) {
	t.Parallel()
	c := client(t, servertest.Redis(t).Addr)
	w := open(t, "watchdog", c, time.Hour)
	acquire(t, w, "k")
	next := locktest.Later(t, w, "k", "waiter")
	locktest.Eventually(t, "the next one queues up", queued(t, c, "k", 1))
	c.ConfigSet(t.Context(), "maxmemory", "1")
	if _, err := lock.Evict(t.Context(), w, "k"); err != nil {
		t.Error(err)
	}
	state, err := lock.Inspect(t.Context(), w, "k")
	if err != nil || state.Holder == nil || state.Holder.Who != "waiter" {
		t.Errorf("%+v, %v", state.Holder, err)
	}
	c.ConfigSet(t.Context(), "maxmemory", "0")
	locktest.Release(t, <-next)
}
