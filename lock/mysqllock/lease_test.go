package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// However often it is renewed, a lease does not outlast the maximum: then others get in, also from the same process.
func TestMaximumHold(t *testing.T) {
	t.Parallel()
	const lease, most = 3 * time.Second, time.Second
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
			l := k.open(t, database(t), 0)
			held := acquire(t, l, "k") // and its holder hangs
			var expired *lock.ExpiredError
			if err := loss(t, held); !errors.As(err, &expired) || !expired.Maximum {
				t.Errorf("loss: %v, want the maximum", err)
			}
			if next := acquire(t, l, "k"); next.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), held.Fence())
			}
		})
	}
}

// A heardAt notes since when a new lease counts: a time before the last request that the server got for it.
type heardAt struct {
	primitive
	heard time.Time
}

func (h *heardAt) drawFence(
	ctx context.Context, s *session, key string, o lock.Options,
) (fence lock.Fence, heard time.Time, err error) {
	fence, heard, err = h.primitive.drawFence(ctx, s, key, o)
	h.heard = heard
	return fence, heard, err
}

// A long wait does not eat up the lease: it counts from after the wait, and from before the request that follows.
func TestALeaseBeginsWhenTheWaitEnds(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		held, waiter := acquire(t, k.open(t, dsn, 0), "k"), k.open(t, via(dsn, p), 0)
		release(t, acquire(t, waiter, "another")) // makes the connection
		asked := &heardAt{primitive: pinnedOf(waiter).primitive}
		pinnedOf(waiter).primitive = asked
		last := p.Set(wire.Trap{Match: wire.Contains(lastOf[k.name]), Do: wire.Hold})
		got := make(chan *lock.Lease, 1)
		go func() { got <- acquire(t, waiter, "k") }()
		db := pool(t, dsn, 1)
		eventually(t, "it waits", func() bool { return waiting(t, db) == 1 })
		waited := time.Now()
		release(t, held)
		<-last.Sprung()
		sent := time.Now()
		last.Release()
		release(t, <-got)
		if asked.heard.Before(waited) || asked.heard.After(sent) {
			t.Errorf("it counts from %v after the wait and %v before the request, want neither below 0",
				asked.heard.Sub(waited), sent.Sub(asked.heard))
		}
	})
}

// lastOf is in the last request of an acquisition.
var lastOf = map[string]string{forUpdate.name: "UPDATE lock_rows", getLock.name: "INTO lock_fences"}

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

// A key of unknown outcome whose lock lives in a connection becomes free by itself, or when the lock is closed, and the
// connection with it. Nothing is left of either in this process.
func TestAbandonedKeys(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"left alone": time.Second, "closed": time.Minute} {
		t.Run(name, func(t *testing.T) {
			each(t, pins, func(t *testing.T, k kind) {
				dsn := database(t)
				db := pool(t, dsn, 12)
				a, b := k.make(db, lease), k.open(t, dsn, 0)
				t.Cleanup(func() { a.Close() })
				err := lock.Do(
					t.Context(), a, "k", lock.Options{},
					func(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown },
				)
				if !errors.Is(err, lock.ErrOutcomeUnknown) {
					t.Fatal(err)
				}
				if name == "closed" {
					if _, err := b.Acquire(
						t.Context(), "k", lock.Options{TryOnce: true},
					); !errors.Is(err, lock.ErrHeld) {
						t.Errorf("at once: %v, want ErrHeld", err)
					}
					_, _ = a.Close(), db.Close()
					free(t, b, "k")
					return
				}
				release(t, acquire(t, b, "k"))
				release(t, acquire(t, a, "k")) // its connection and its place in the queue are free, too
			})
		})
	}
}
