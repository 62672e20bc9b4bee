package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

// roundTrips are those of an acquisition and a release on a free key, and of a try on a held one, once the lock is
// warm.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		kind                     kind
		first, acquire, try, end int
	}{
		// A connection is two round trips, one that sets its variables, and one that reads its character set back.
		{table, 4 + 1, 1, 2, 1},
		{forUpdate, 2*4 + 6, 3, 2, 1}, // two connections: lock + insert + commit + lock + fence + name
		{getLock, 4 + 2, 2, 1, 1},     // a connection, lock + fence
	} {
		t.Run(row.kind.name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			p := newProxy(t, addr(dsn))
			l := row.kind.open(t, via(dsn, p), 0)
			other := row.kind.open(t, via(dsn, p), 0)
			count := func(what string, want int, op func()) {
				t.Helper()
				p.reset()
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
				if _, err := other.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(
					err, lock.ErrHeld,
				) {
					t.Errorf("err = %v, want ErrHeld", err)
				}
			})
			count("release", row.end, func() { release(t, lease) })
		})
	}
}

// Whatever request of an acquisition or a release is broken, and however, the key is free soon after, although a
// lease is a minute.
func TestCutAtEveryRequest(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		for name, f := range faults {
			for _, cold := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, cold %v", name, cold), func(t *testing.T) {
					t.Parallel()
					c := cutting{k, dsn, k.open(t, dsn, 0), f, cold}
					for n := 1; ; n++ {
						requests, err := c.try(t, n)
						for try := 1; err != nil && try < 3; try++ { // a busy computer may be late
							requests, err = c.try(t, n)
						}
						if err != nil {
							t.Fatalf("at %d: the key does not become free: %v", n, err)
						}
						if len(requests) < n {
							break
						}
					}
				})
			}
		}
	})
}

// A cutting is a fault of a connection that was just made, or of one that was used before.
type cutting struct {
	kind  kind
	dsn   string
	sound locker
	fault wire.Action
	cold  bool
}

// try is at, in a test of its own, which closes what was opened for it.
func (c cutting) try(t *testing.T, n int) (requests []string, err error) {
	t.Run(fmt.Sprint(n), func(t *testing.T) { requests, err = c.at(t, n) })
	return requests, err
}

// at breaks the n-th request, and returns the requests that were seen, and what is wrong if the key does not become
// free.
func (c cutting) at(t *testing.T, n int) ([]string, error) {
	t.Helper()
	p := newProxy(t, addr(c.dsn))
	l, key := c.kind.open(t, via(c.dsn, p), time.Minute), locktest.FreshKey()
	if !c.cold {
		release(t, acquire(t, l, key))
	}
	p.at(n, c.fault)
	long := soon
	if c.fault == wire.Hold || c.fault == wire.Vanish { // nothing else ends it
		long = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), long)
	lease, err := l.Acquire(ctx, key, lock.Options{})
	if err == nil {
		_ = lease.Release()
	}
	cancel()
	if !c.cold && n == 1 && (c.fault == wire.Cut || c.fault == wire.CutReply) && c.kind.name != table.name &&
		err != nil {
		t.Errorf("a connection that broke while it was idle: %v", err)
	}
	requests := p.seen()
	if len(requests) >= n {
		t.Logf("at %d, %.40q: %v", n, requests[n-1], err)
	}
	if err := becomesFree(t, c.sound, key); err != nil {
		return requests, err
	}
	p.reset()
	release(t, acquire(t, l, key)) // and the lock still works
	return requests, nil
}

// A holder that is cut off, by a network that drops packets without a word, knows of its loss before another can be
// let in.
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
	p.Silence(wire.ToServer, wire.ToClient)
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

// A collision that the server resolves by undoing one of two statements is no failure, wherever it happens; endless
// ones are.
func TestCollisions(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		l := k.open(t, via(dsn, p), 0)
		release(t, acquire(t, l, "k"))
		for _, word := range []string{"LAST_INSERT_ID", "FOR UPDATE", "GET_LOCK("} {
			for _, number := range []uint16{mysqlerr.Deadlock, mysqlerr.LockWaitTimeout} {
				count, stop := p.fail(word, number, 3)
				lease := acquire(t, l, "k")
				stop()
				release(t, lease)
				if n := count(); n != 0 && n != 4 {
					t.Errorf("%s: %d times, want 3 of error %d and a success", word, n, number)
				}
			}
		}
		_, stop := p.fail("LAST_INSERT_ID", mysqlerr.Deadlock, math.MaxInt)
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("endless collisions: %v, want ErrHeld", err)
		}
		stop()
		free(t, k.open(t, dsn, 0), "k")
	})
}

// A waiter waits on when its statement is ended, by an operator, a query killer or a time limit, however often.
func TestAQueryKiller(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		l := k.open(t, via(dsn, p), 0)
		release(t, acquire(t, l, "k"))
		for _, word := range []string{"UPDATE locks SET token", "FOR UPDATE", "GET_LOCK("} {
			for _, number := range []uint16{mysqlerr.Interrupted, mysqlerr.StatementTime, mysqlerr.ExecutionTime} {
				const often = 2 * maxTries
				count, stop := p.fail(word, number, often)
				lease, err := l.Acquire(t.Context(), "k", lock.Options{})
				stop()
				if err != nil {
					t.Errorf("%s, error %d: %v", word, number, err)
					continue
				}
				release(t, lease)
				if n := count(); n != 0 && n <= often {
					t.Errorf("%s, error %d: sent %d times, want %d and a success", word, number, n, often)
				}
			}
		}
	})
}

// With real collisions: many make the same rows at the same time while somebody takes his own back again.
func TestFirstUseTogether(t *testing.T) {
	eachBeside(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		var lockers []locker
		for range 6 {
			lockers = append(lockers, k.open(t, dsn, 0))
		}
		for round := range stacktest.Rounds(20, 3) {
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
		for range 5 { // a busy computer may run the holder's timer late
			if toldByItsOwnClock(t, k) {
				return
			}
		}
		t.Error("the limit counts from the answer, five times")
	})
}

// toldByItsOwnClock is whether the holder was told nearer to the lease after its request than after the answer.
func toldByItsOwnClock(t *testing.T, k kind) bool {
	t.Helper()
	dsn := database(t)
	p := newProxy(t, addr(dsn))
	const lease, delay = 4 * time.Second, 1200 * time.Millisecond
	l := k.open(t, via(dsn, p), lease)
	release(t, acquire(t, l, "k"))
	granting := map[string]string{
		table.name: "UPDATE locks SET token", forUpdate.name: "UPDATE lock_rows", getLock.name: "INTO lock_fences",
	}
	request := p.Set(wire.Trap{Match: wire.Contains(granting[k.name]), Do: wire.Hold})
	go func() {
		<-request.Sprung()
		time.AfterFunc(delay, request.Release)
	}()
	asked := time.Now()
	held := acquire(t, l, "k")
	p.Silence(wire.ToServer, wire.ToClient)
	if got := time.Since(asked); got < delay {
		t.Fatalf("granted after %v: nothing was held up", got)
	}
	_ = loss(t, held)
	took := time.Since(asked)
	t.Logf("told of the loss %v after it asked, and the lease is %v", took, lease)
	return took <= lease+delay/2
}

// The server is killed under a holder and a waiter of each lock, and comes back.
func TestServerGoneAndBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	server := stacktest.Server(t, "mysql")
	migrate(t, server.URL)
	const lease = time.Minute
	lockers, held, waited := map[string]locker{}, map[string]*lock.Lease{}, map[string]chan error{}
	for _, k := range all {
		l, other, ended := k.open(t, server.URL, lease), k.open(t, server.URL, lease), make(chan error, 1)
		lockers[k.name], held[k.name], waited[k.name] = l, acquire(t, l, k.name), ended
		release(t, acquire(t, l, k.name+" idle"))
		go func() {
			lease, err := other.Acquire(t.Context(), k.name, lock.Options{})
			if err == nil {
				_ = lease.Release()
			}
			ended <- err
		}()
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	t.Run("gone", func(t *testing.T) {
		eachBeside(t, all, func(t *testing.T, k kind) {
			select {
			case err := <-waited[k.name]:
				if !errors.Is(err, lock.ErrDown) {
					t.Errorf("a waiter got %v, want ErrDown", err)
				}
			case <-time.After(soon):
				t.Error("a waiter was not told that the server is gone")
			}
			for _, once := range []bool{false, true} {
				asked := time.Now()
				_, err := lockers[k.name].Acquire(t.Context(), k.name+" other", lock.Options{TryOnce: once})
				if !errors.Is(err, lock.ErrDown) {
					t.Errorf("err = %v, want ErrDown", err)
				}
				if took := time.Since(asked); took > soon {
					t.Errorf("took %v", took)
				}
			}
			if k.name != table.name {
				if err := loss(t, held[k.name]); !errors.Is(err, lock.ErrExpired) {
					t.Errorf("loss: %v, want ErrExpired", err)
				}
			}
			if err := held[k.name].Release(); err == nil {
				t.Error("a release that could not be told says that all is well")
			}
		})
	})
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Run("back", func(t *testing.T) {
		eachBeside(t, all, func(t *testing.T, k kind) {
			// Within less than a lease: the release was sent again.
			if next := acquire(t, lockers[k.name], k.name); next.Fence() <= held[k.name].Fence() {
				t.Errorf("fence %d after %d", next.Fence(), held[k.name].Fence())
			}
		})
	})
}

// A server that hangs is said to be down, also to a caller that waits for another, and a holder is told before the
// server can let others in.
func TestServerPaused(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	server := stacktest.Server(t, "mysql")
	migrate(t, server.URL)
	const lease = 4 * time.Second
	lockers, held := map[string]locker{}, map[string]*lock.Lease{}
	for _, k := range all {
		l := k.open(t, server.URL, lease)
		release(t, acquire(t, l, k.name+" warm"))
		lockers[k.name], held[k.name] = l, acquire(t, l, k.name)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	t.Run("hangs", func(t *testing.T) {
		eachBeside(t, all, func(t *testing.T, k kind) {
			l := lockers[k.name]
			for _, key := range []string{k.name + " warm", k.name + " new"} {
				asked := time.Now()
				if _, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) {
					t.Errorf("%s: %v, want ErrDown", key, err)
				}
				if took := time.Since(asked); took > soon {
					t.Errorf("%s: took %v", key, took)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			asked := time.Now()
			_, err := l.Acquire(ctx, k.name+" warm", lock.Options{})
			if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrDown) {
				t.Errorf("a bounded wait: %v", err)
			}
			if took := time.Since(asked); took > soon {
				t.Errorf("a bounded wait of 1 s took %v", took)
			}
			if err := loss(t, held[k.name]); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("loss: %v, want ErrExpired", err)
			}
			released := time.Now()
			_ = held[k.name].Release()
			if took := time.Since(released); took > soon {
				t.Errorf("release took %v", took)
			}
		})
	})
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	t.Run("goes on", func(t *testing.T) {
		eachBeside(t, all, func(t *testing.T, k kind) {
			for _, key := range []string{k.name, k.name + " warm", k.name + " new"} {
				free(t, lockers[k.name], key)
			}
		})
	})
}
