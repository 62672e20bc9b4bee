package mysqllock

import (
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
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
