package mysqllock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

// roundTrips are those of an acquisition and a release on a free key, and of a try on a held one, once the lock is warm.
func TestRoundTrips(t *testing.T) {
	for _, row := range []struct {
		kind                     kind
		first, acquire, try, end int
	}{
		// A connection is two round trips, and one that sets its variables.
		{table, 3 + 1, 1, 2, 1},
		{forUpdate, 2*3 + 6, 3, 2, 1}, // two connections: lock + insert + commit + lock + fence + ping
		{getLock, 3 + 2, 2, 1, 1},     // a connection, lock + fence
	} {
		t.Run(row.kind.name, func(t *testing.T) {
			dsn := database(t)
			p := newProxy(t, addr(dsn))
			l := row.kind.open(t, via(dsn, p), 0)
			other := row.kind.open(t, via(dsn, p), 0)
			count := func(what string, want int, op func()) {
				t.Helper()
				p.obey(nil)
				op()
				if got := p.seen(); len(got) != want {
					t.Errorf("%s: %d round trips, want %d: %q", what, len(got), want, got)
				}
			}
			var lease *lock.Lease
			count("first use", row.first, func() { lease = acquire(t, l, "k") })
			count("release", row.end, func() { release(t, lease) })
			release(t, acquire(t, other, "k"))
			count("acquire", row.acquire, func() { lease = acquire(t, l, "k") })
			count("try a held key", row.try, func() {
				if _, err := other.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("err = %v, want ErrHeld", err)
				}
			})
			count("release", row.end, func() { release(t, lease) })
		})
	}
}

// Whatever request of an acquisition or a release is broken, and however, the key is free soon after, although a lease is a
// minute.
func TestCutAtEveryRequest(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		sound := k.open(t, dsn, 0)
		for _, f := range []fate{cutBefore, cutAfter, drop, hang} {
			for _, cold := range []bool{true, false} {
				for n := 1; ; n++ {
					requests, err := cutting{k, dsn, sound, f, cold}.at(t, n)
					for try := 1; err != nil && try < 3; try++ { // a busy computer has the connection ended in a second, or does not
						requests, err = cutting{k, dsn, sound, f, cold}.at(t, n)
					}
					if err != nil {
						t.Fatalf("%v at %d: the key does not become free: %v", f, n, err)
					}
					if len(requests) < n {
						break
					}
				}
			}
		}
	})
}

// A cutting is a fault of a connection that was just made, or of one that was used before.
type cutting struct {
	kind  kind
	dsn   string
	sound locker
	fault fate
	cold  bool
}

// at breaks the n-th request, and returns the requests that were seen, and what is wrong if the key does not become free.
func (c cutting) at(t *testing.T, n int) ([]string, error) {
	t.Helper()
	p := newProxy(t, addr(c.dsn))
	l, key := c.kind.open(t, via(c.dsn, p), time.Minute), locktest.FreshKey()
	if !c.cold {
		release(t, acquire(t, l, key))
	}
	p.at(n, c.fault)
	long := soon
	if c.fault == drop || c.fault == hang { // nothing else ends it
		long = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	lease, err := l.Acquire(ctx, key, lock.Options{})
	if err == nil {
		_ = lease.Release()
	}
	cancel()
	if !c.cold && n == 1 && (c.fault == cutBefore || c.fault == cutAfter) && c.kind.name != table.name && err != nil {
		t.Errorf("%v: a connection that broke while it was idle: %v", c.fault, err)
	}
	requests := p.seen()
	if len(requests) >= n {
		t.Logf("%v at %d, %.40q: %v", c.fault, n, requests[n-1], err)
	}
	if err := becomesFree(t, c.sound, key); err != nil {
		return requests, err
	}
	p.obey(nil)
	release(t, acquire(t, l, key)) // and the lock still works
	return requests, nil
}

// A holder that is cut off, by a network that drops packets without a word, knows of its loss before another can be let in.
func TestCutOff(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		for range 5 { // a busy computer may run the holder's timer late
			if toldInTime(t, k) {
				return
			}
		}
		t.Error("another was let in while the lease was held, five times")
	})
}

// toldInTime cuts a holder off, and is whether it knew of its loss before another was let in.
func toldInTime(t *testing.T, k kind) bool {
	t.Helper()
	const lease = 2 * time.Second
	dsn := database(t)
	p := newProxy(t, addr(dsn))
	held := acquire(t, k.open(t, via(dsn, p), lease), "k")
	p.setSilent(true)
	next := acquire(t, k.open(t, dsn, 0), "k")
	told := held.Err() != nil
	if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("loss: %v", err)
	}
	if next.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), held.Fence())
	}
	return told
}
