package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
)

// roundTrips are those of an acquisition and a release on a free key, and of a try on a held one, once the lock is warm.
func TestRoundTrips(t *testing.T) {
	for _, row := range []struct {
		kind                     kind
		first, acquire, try, end int
	}{
		{table, 3, 1, 2, 1},
		{forUpdate, 3 + 1 + 6, 3, 2, 1}, // a connection, its patience, lock + insert + commit + lock + fence + ping
		{getLock, 2 + 2, 2, 1, 1},       // a connection, lock + fence
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
				if _, err := other.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrHeld) {
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
					p := newProxy(t, addr(dsn))
					l := k.open(t, via(dsn, p), time.Minute)
					key := "k"
					if cold {
						key = fmt.Sprint(f, n)
					} else {
						release(t, acquire(t, l, key))
					}
					p.at(n, f)
					ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
					lease, err := l.Acquire(ctx, key)
					if err == nil {
						_ = lease.Release()
					}
					cancel()
					if !cold && n == 1 && (f == cutBefore || f == cutAfter) && k.name != table.name && err != nil {
						t.Errorf("%v: a connection that broke while it was idle: %v", f, err)
					}
					requests := p.seen()
					free(t, sound, key)
					p.obey(nil)
					release(t, acquire(t, l, key)) // and the lock still works
					if len(requests) < n {
						break
					}
					t.Logf("%v at %d, %.40q: %v", f, n, requests[n-1], err)
				}
			}
		}
	})
}

// A holder that is cut off, by a network that drops packets without a word, knows of its loss before another can be let in.
func TestCutOff(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		const lease = 2 * time.Second
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		held := acquire(t, k.open(t, via(dsn, p), lease), "k")
		p.setSilent(true)
		next := acquire(t, k.open(t, dsn, 0), "k")
		select {
		case <-held.Done():
		default:
			t.Error("another was let in while the lease was held")
		}
		if err := held.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
			t.Errorf("loss: %v", err)
		}
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
	})
}
