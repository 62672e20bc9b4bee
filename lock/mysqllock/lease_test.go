package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A lease outlasts its time limit as long as its holder lives, and not the maximum: then others get in, also from the
// same process.
func TestRenewalAndMaximumHold(t *testing.T) {
	t.Parallel()
	const lease, most = 3 * time.Second, 9 * time.Second
	for _, k := range []kind{
		{"table", func(db *sql.DB, _ time.Duration) locker {
			return NewTable(db, TableOptions{Lease: lease, MaxHold: most})
		}},
		{"for update", func(db *sql.DB, _ time.Duration) locker {
			return NewForUpdate(db, ConnOptions{Lease: lease, MaxHold: most})
		}},
		{"get lock", func(db *sql.DB, _ time.Duration) locker {
			return NewGetLock(db, ConnOptions{Lease: lease, MaxHold: most})
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			l := k.open(t, dsn, 0)
			began := time.Now()
			held := acquire(t, l, "k") // and its holder hangs
			if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("loss: %v, want ErrExpired", err)
			}
			if lasted := time.Since(began); lasted < most-lease {
				t.Errorf("lost after %v, want %v: it was not renewed", lasted, most)
			}
			next := acquire(t, l, "k")
			if lasted := time.Since(began); lasted > most+soon {
				t.Errorf("followed after %v", lasted)
			}
			if next.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), held.Fence())
			}
		})
	}
}

// A long wait does not eat up the lease.
func TestALeaseBeginsWhenTheWaitEnds(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		const lease = 3 * time.Second
		dsn := database(t)
		held := acquire(t, k.open(t, dsn, 0), "k")
		waiter := k.open(t, dsn, lease)
		time.AfterFunc(7*time.Second, func() { _ = held.Release() }) // longer than two leases
		next := acquire(t, waiter, "k")
		select {
		case <-next.Done():
			t.Errorf("lost: %v", next.Err())
		case <-time.After(2 * lease):
		}
		release(t, next)
	})
}

// Whoever takes or deletes the row under its holder is noticed at the next renewal, and his row is left as it is.
func TestTheRowIsTakenAway(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		statement string
		want      error
	}{
		"deleted": {"DELETE FROM locks", lock.ErrExpired},
		"expired": {"UPDATE locks SET expires_at = '1970-01-01'", lock.ErrExpired},
		"freed":   {"UPDATE locks SET token = '', expires_at = '1970-01-01'", lock.ErrExpired},
		"taken":   {"UPDATE locks SET token = 'another', expires_at = expires_at + INTERVAL 1 HOUR", lock.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			db := pool(t, dsn, 2)
			lease := acquire(t, table.open(t, dsn, 3*time.Second), "k")
			execSQL(t, db, row.statement)
			if err := loss(t, lease); !errors.Is(err, row.want) {
				t.Errorf("loss: %v, want %v", err, row.want)
			}
			if err := lease.Release(); !errors.Is(err, row.want) {
				t.Errorf("release: %v, want %v", err, row.want)
			}
			if n := count(t, db, "SELECT COUNT(*) FROM locks WHERE token NOT IN ('', 'another')"); n != 0 {
				t.Error("the release left a token")
			}
			if n := count(t, db, "SELECT COUNT(*) FROM locks WHERE token = 'another'"); (n == 1) != (name == "taken") {
				t.Errorf("%d rows of another", n)
			}
		})
	}
}

// A key of unknown outcome becomes free by itself; of a lock that lives in a connection also when that is closed, and
// the connection with it. Nothing is left of either in this process.
func TestAbandonedKeys(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"left alone": false, "closed": true} {
		t.Run(name, func(t *testing.T) {
			each(t, all, func(t *testing.T, k kind) {
				dsn := database(t)
				db := pool(t, dsn, 12)
				a, b := k.make(db, 3*time.Second), k.open(t, dsn, 0)
				t.Cleanup(func() { a.Close() })
				err := lock.Do(
					t.Context(), a, "k", lock.Options{},
					func(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown },
				)
				if !errors.Is(err, lock.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := b.Acquire(
					t.Context(), "k", lock.Options{TryOnce: true},
				); !errors.Is(err, lock.ErrHeld) &&
					time.Since(began) < time.Second {
					t.Errorf("at once: %v, want ErrHeld", err)
				}
				if closes {
					_, _ = a.Close(), db.Close()
				}
				release(t, acquire(t, b, "k"))
				if !closes { // the connection and the place in the queue of this process are free, too
					release(t, acquire(t, a, "k"))
				}
			})
		})
	}
}
