package redislock_test

import (
	"errors"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// The round trips are those that the comments of the types state, and that the catalogue promises.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t).Addr
	for name, want := range map[string]struct{ acquire, release int64 }{
		"lock": {1, 1}, "watchdog": {1, 1}, "rlock": {1, 1}, "setnx-expire": {2, 1}, "setnx-del": {1, 1},
		"setnx-watch": {1, 4},
	} {
		c := client(t, addr)
		counted(t, name, open(t, name, c, 0), want.acquire, 1, want.release, func() *tripCounter {
			count := new(tripCounter)
			c.AddHook(count)
			return count
		})
	}
}

// A round of a Redlock is one request to each of its nodes.
func TestRedlockRoundTrips(t *testing.T) {
	t.Parallel()
	m := startMasters(t)
	clients := m.clients(t)
	r := m.redlock(t, redislock.RedlockOptions{}, clients...)
	for range 3 {
		release(t, acquire(t, r, "warm-up")) // connects, on two connections of each client, and asks each who it is
	}
	counted(t, "redlock", r, 5, 5, 5, func() *tripCounter {
		count := new(tripCounter)
		for _, c := range clients {
			c.AddHook(count)
		}
		return count
	})
}

func counted(t *testing.T, name string, l lock.Locker, acquires, tries, releases int64, begin func() *tripCounter) {
	key := locktest.FreshKey()
	release(t, acquire(t, l, key)) // connects and loads the scripts
	count := begin()
	held := acquire(t, l, key)
	acquired := count.n.Swap(0)
	if err := try(t, l, key); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("%s: %v", name, err)
	}
	tried := count.n.Swap(0)
	release(t, held)
	if released := count.n.Load(); acquired != acquires || tried != tries || released != releases {
		t.Errorf("%s: an acquisition, a try in vain and a release took %d, %d, %d round trips; want %d, %d, %d",
			name, acquired, tried, released, acquires, tries, releases)
	}
}
