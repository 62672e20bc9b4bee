package redislock_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// oddKeys are such that no two of them may become the same, nor look like another part of a lock.
func oddKeys() []string {
	return []string{
		"%", "{%}", "{}", "{", "}", "}{", "%7B", "%257B", "k}:fence", "k}:queue", "k", "*", "a b", "a\r\nb", "\x00",
		"\xff\xfe", "日本", strings.Repeat("x", 900),
	}
}

// The state of each key names its holder, with its fence, alone and together with others, and Keys lists what is held.
func TestInspect(t *testing.T) {
	t.Parallel()
	each(t, prefixes, time.Minute, func(t *testing.T, s *server.Server, c *redis.Client, l lock.Locker) {
		inspected(t, l, oddKeys())
		name := prefix(t) + ":{%25}"
		c.Persist(t.Context(), name)
		if state, err := lock.Inspect(t.Context(), l, "%"); err != nil || state.Holder.Remaining != driver.Forever {
			t.Errorf("a key without a time limit: %+v, %v", state.Holder, err)
		}
		c.ScriptFlush(t.Context())
		if err := locktest.SameStates(t.Context(), l, append(oddKeys(), "free", "%")); err != nil {
			t.Error(err)
		}
		count := new(tripCounter)
		c.AddHook(count)
		if _, err := lock.InspectAll(t.Context(), l, oddKeys()); err != nil || count.n.Load() != 1 {
			t.Errorf("all keys took %d round trips, want 1: %v", count.n.Load(), err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		_, inspected := lock.Inspect(t.Context(), l, "k")
		_, listed := l.(driver.Lister).Keys(t.Context())
		for _, err := range []error{inspected, listed} {
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("without a server: %v", err)
			}
		}
	})
}

// inspected acquires keys, and looks at them.
func inspected(t *testing.T, l lock.Locker, keys []string) {
	t.Helper()
	leases := make(map[string]*lock.Lease)
	for _, key := range keys {
		leases[key] = acquire(t, l, key)
	}
	locktest.Release(t, acquire(t, l, "gone"))
	listed, err := l.(driver.Lister).Keys(t.Context())
	if want := slices.Sorted(slices.Values(keys)); err != nil || !slices.Equal(listed, want) {
		t.Errorf("keys %q, %v; want %q", listed, err, want)
	}
	states, err := lock.InspectAll(t.Context(), l, append(slices.Clone(keys), "gone"))
	if err != nil || len(states) != len(keys)+1 || states[len(keys)].Holder != nil {
		t.Fatalf("%+v, %v", states, err)
	}
	for i, key := range keys {
		h := states[i].Holder
		if h == nil || h.Who != "holder" || h.Fence != leases[key].Fence() || h.Remaining <= 0 ||
			h.Remaining > time.Minute || h.Since.IsZero() != (h.Fence == lock.NoFence) {
			t.Errorf("%q: %+v", key, h)
		}
	}
	var held *lock.HeldError
	if err := locktest.Try(t, l, keys[0]); !errors.As(err, &held) || held.Holder != "holder" || held.Remaining <= 0 {
		t.Errorf("another is told %+v, want the holder and what remains", err)
	}
}

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
		locktest.Release(t, held)
		if released := count.n.Load(); acquired != want.acquire || tried != 1 || released != want.release {
			t.Errorf("%s: an acquisition, a try in vain and a release took %d, %d, %d; want %d, 1, %d",
				name, acquired, tried, released, want.acquire, want.release)
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
