package mysqllock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/stack/stacktest"
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
	lease, err := l.Acquire(ctx, key)
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

// A collision that the server resolves by undoing one of two statements is no failure, wherever it happens; endless ones are.
func TestCollisions(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		l := k.open(t, via(dsn, p), 0)
		release(t, acquire(t, l, "k"))
		for _, word := range []string{"LAST_INSERT_ID", "FOR UPDATE", "GET_LOCK("} {
			for _, f := range []fate{collide, overdue} {
				n := 0
				p.obey(func(_ int, request string) fate {
					if !strings.Contains(request, word) {
						return pass
					}
					if n++; n > 3 {
						return pass
					}
					return f
				})
				lease := acquire(t, l, "k")
				p.obey(nil)
				release(t, lease)
				if n != 0 && n != 4 {
					t.Errorf("%s: %d times, want 3 of %v and a success", word, n, f)
				}
			}
		}
		p.obey(func(_ int, request string) fate {
			if strings.Contains(request, "LAST_INSERT_ID") {
				return collide
			}
			return pass
		})
		if _, err := l.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("endless collisions: %v, want ErrHeld", err)
		}
		p.obey(nil)
		free(t, k.open(t, dsn, 0), "k")
	})
}

// With real collisions: many make the same rows at the same time while somebody takes his own back again.
func TestFirstUseTogether(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		var lockers []locker
		for range 6 {
			lockers = append(lockers, k.open(t, dsn, 0))
		}
		for round := range 20 {
			key := keyN(round)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{
				"INSERT INTO locks VALUES (?, '', '', '1970-01-01', 0)",
				"INSERT INTO lock_rows (name) VALUES (?)",
				"INSERT INTO lock_fences (name, fence) VALUES (?, 0)",
			} {
				if _, err := tx.Exec(statement, key); err != nil {
					t.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for _, l := range lockers {
				all.Go(func() { release(t, acquire(t, l, key)) })
			}
			<-time.After(5 * time.Millisecond) // lets them come to the row; if they have not, the round is only weaker
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			all.Wait()
		}
	})
}

// The holder's time limit counts from before the request that was granted, and not from its answer: the server's
// clock began to run somewhere in between. Here the request is held up for 1.2 s, and then nothing is heard any more.
func TestTheLimitCountsFromBeforeTheRequest(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		const lease, delay = 4 * time.Second, 1200 * time.Millisecond
		l := k.open(t, via(dsn, p), lease)
		release(t, acquire(t, l, "k"))
		granting := map[string]string{
			table.name: "UPDATE locks SET token", forUpdate.name: "UPDATE lock_rows", getLock.name: "INTO lock_fences",
		}
		granted := false
		p.obey(func(_ int, request string) fate {
			switch {
			case granted:
				return drop
			case strings.Contains(request, granting[k.name]):
				granted = true
				time.AfterFunc(delay, func() { close(p.onward) })
				return late
			}
			return pass
		})
		asked := time.Now()
		held := acquire(t, l, "k")
		if got := time.Since(asked); got < delay {
			t.Fatalf("granted after %v: nothing was held up", got)
		}
		_ = loss(t, held)
		if took := time.Since(asked); took > lease+delay/2 {
			t.Errorf("told of the loss %v after it asked, and the lease is %v", took, lease)
		}
	})
}

// The server is killed under a holder and a waiter, and comes back.
func TestServerGoneAndBack(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		server := stacktest.Server(t, "mysql")
		migrate(t, server.URL)
		const lease = time.Minute
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
		case <-time.After(soon):
			t.Error("a waiter was not told that the server is gone")
		}
		for _, ctx := range []context.Context{t.Context(), lock.NoWait(t.Context())} {
			asked := time.Now()
			if _, err := l.Acquire(ctx, "other"); !errors.Is(err, lock.ErrDown) {
				t.Errorf("err = %v, want ErrDown", err)
			}
			if took := time.Since(asked); took > soon {
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
		next := acquire(t, l, "k") // within less than a lease: the release was made up for
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
		const lease = 4 * time.Second
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
			if took := time.Since(asked); took > soon {
				t.Errorf("%s: took %v", row.key, took)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		asked := time.Now()
		if _, err := l.Acquire(ctx, "warm"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrDown) {
			t.Errorf("a bounded wait: %v", err)
		}
		if took := time.Since(asked); took > soon {
			t.Errorf("a bounded wait of 1 s took %v", took)
		}
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("loss: %v, want ErrExpired", err)
		}
		released := time.Now()
		_ = held.Release()
		if took := time.Since(released); took > soon {
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
