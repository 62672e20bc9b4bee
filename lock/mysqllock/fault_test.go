package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/stacktest"
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

// The server is killed under a holder and a waiter, and comes back.
func TestServerGoneAndBack(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		server := stacktest.Server(t, "mysql")
		migrate(t, server.URL)
		const lease = 5 * time.Second
		l, other := k.open(t, server.URL, lease), k.open(t, server.URL, lease)
		held := acquire(t, l, "k")
		release(t, acquire(t, l, "idle"))
		waited := make(chan error, 1)
		go func() {
			lease, err := other.Acquire(t.Context(), "k")
			if err == nil {
				_ = lease.Release()
			}
			waited <- err
		}()
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-waited:
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("a waiter got %v, want ErrDown", err)
			}
		case <-time.After(3 * time.Second):
			t.Error("a waiter was not told that the server is gone")
		}
		for _, ctx := range []context.Context{t.Context(), lock.NoWait(t.Context())} {
			asked := time.Now()
			if _, err := l.Acquire(ctx, "other"); !errors.Is(err, lock.ErrDown) {
				t.Errorf("err = %v, want ErrDown", err)
			}
			if took := time.Since(asked); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		}
		if k.name != table.name {
			if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("loss: %v, want ErrExpired", err)
			}
		}
		if err := held.Release(); err == nil {
			t.Error("a release that could not be told says that all is well")
		}
		if err := server.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		back := time.Now()
		next := acquire(t, l, "k")
		if took := time.Since(back); took > 2*time.Second {
			t.Errorf("free %v after the restart: the release was not made up for", took)
		}
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
	})
}

// A server that hangs is said to be down, also to somebody who waits for another, and a holder is told before the server can
// let others in.
func TestServerPaused(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		server := stacktest.Server(t, "mysql")
		migrate(t, server.URL)
		const lease = 2 * time.Second
		l := k.open(t, server.URL, lease)
		held := acquire(t, l, "held")
		release(t, acquire(t, l, "warm"))
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct {
			ctx context.Context
			key string
		}{
			{lock.NoWait(t.Context()), "warm"}, {lock.NoWait(t.Context()), "new"},
		} {
			asked := time.Now()
			if _, err := l.Acquire(row.ctx, row.key); !errors.Is(err, lock.ErrDown) {
				t.Errorf("%s: %v, want ErrDown", row.key, err)
			}
			if took := time.Since(asked); took > 3*time.Second {
				t.Errorf("%s: took %v", row.key, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := time.Now()
		if _, err := l.Acquire(ctx, "warm"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrDown) {
			t.Errorf("a bounded wait: %v", err)
		}
		if took := time.Since(asked); took > 3*time.Second {
			t.Errorf("a bounded wait of 1 s took %v", took)
		}
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("loss: %v, want ErrExpired", err)
		}
		released := time.Now()
		_ = held.Release()
		if took := time.Since(released); took > 2*lock.ReleaseTimeout {
			t.Errorf("release took %v", took)
		}
		if err := server.Resume(); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"held", "warm", "new"} {
			free(t, l, key)
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

// The end of the connection is the end of the lock: the next one gets it at once, and the holder is told soon.
func TestTheHoldersConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, 0)
		release(t, acquire(t, l, "k"))
		id := connection(t, l)
		held := acquire(t, l, "k")
		got := make(chan *lock.Lease, 1)
		waiter := k.open(t, dsn, 0)
		go func() {
			lease, err := waiter.Acquire(t.Context(), "k")
			if err != nil {
				t.Error(err)
			}
			got <- lease
		}()
		eventually(t, 5*time.Second, "somebody waits", func() bool { return waiting(t, db) == 1 })
		killed := time.Now()
		execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) || !strings.Contains(err.Error(), "connection") {
			t.Errorf("loss: %v, want ErrExpired because of the connection", err)
		}
		if took := time.Since(killed); took > beatEvery/2 {
			t.Errorf("the loss was signalled after %v", took)
		}
		next := <-got
		if next == nil {
			t.FailNow()
		}
		if next.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", next.Fence(), held.Fence())
		}
		if err := held.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release: %v, want ErrLost", err)
		}
		if _, err := waiter.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("the release of a lost lease let others in: %v", err)
		}
		release(t, next)
	})
}

// A connection that was ended while it was idle is nobody's loss and nobody's failure.
func TestAnIdleConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, 0)
		for range 10 {
			release(t, acquire(t, l, "k"))
			id := connection(t, l)
			execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
			lease, err := l.Acquire(lock.NoWait(t.Context()), "k")
			if err != nil {
				t.Fatalf("acquire: %v", err)
			}
			release(t, lease)
			if connection(t, l) == id {
				t.Fatal("it was not killed")
			}
		}
	})
}

// Who loses the key between the lock and its fence, and draws the fence after the next holder, must not pass for the later one.
func TestAFenceThatIsDrawnTooLate(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		p := newProxy(t, addr(dsn))
		l, other := k.open(t, via(dsn, p), 0), k.open(t, dsn, 0)
		release(t, acquire(t, l, "k"))
		id := connection(t, l)
		var next *lock.Lease
		p.obey(func(_ int, request string) fate {
			if next == nil && strings.Contains(request, "LAST_INSERT_ID") {
				execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
				next = acquire(t, other, "k")
			}
			return pass
		})
		if late, err := l.Acquire(lock.NoWait(t.Context()), "k"); err == nil {
			t.Errorf("got a lease with fence %d, the holder has %d", late.Fence(), next.Fence())
		} else if !errors.Is(err, lock.ErrHeld) {
			t.Errorf("err = %v, want ErrHeld", err)
		}
		p.obey(nil)
	})
}
