package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"example.com/stock/lock"
)

// TableOptions are the choices of a Table. A zero field means its default.
type TableOptions struct {
	Lease      time.Duration // after the last renewal; default 10 s, renewed every third
	MaxHold    time.Duration // longest hold, after which the lease is lost; default 5 min
	MinBackoff time.Duration // first pause between two tries of a waiter; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms
	// NoExpiry leaves out the time limit, as the lock tables of many shops do. After a crash of the holder no caller
	// gets the key until its row is cleared by hand. The lab uses it to show that.
	NoExpiry bool
}

const (
	// readEvery is how often a waiter reads the row. If the row was deleted, the waiter must insert it.
	readEvery = time.Second
	// never is the lease of a holder without a time limit.
	never = 200 * 365 * 24 * time.Hour
	// noExpiryLinger is how long an abandoned key without a time limit stays taken.
	noExpiryLinger = 10 * time.Second
)

// NewTable returns a Table on db. It uses a connection for one statement at a time only. Close the Table when no lease
// is held any more.
func NewTable(db *sql.DB, o TableOptions) *Table {
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.MaxHold = cmp.Or(o.MaxHold, 5*time.Minute)
	o.MinBackoff = cmp.Or(o.MinBackoff, 2*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 50*time.Millisecond)
	if o.NoExpiry {
		o.Lease = never
	}
	forget := func(ctx context.Context) error { return lockTable.forget(ctx, db, retention) }
	return &Table{db, o, lock.NewSweeper(), newForgetter(forget)}
}

// FenceRange returns the distance between two fences.
func (t *Table) FenceRange() uint64 { return fenceDistance }

// Close drops the releases that have not reached the server yet. Their keys become free when the lease runs out.
func (t *Table) Close() error {
	t.sweeper.Close()
	t.rows.close()
	return nil
}

// keep returns how a lease is kept alive, without Renew.
func (t *Table) keep() lock.Keep {
	return lock.Keep{TTL: t.o.Lease, Every: t.o.Lease / 3, Max: t.o.MaxHold}
}

// stale reports whether a lease has run out if its answer took this long.
func (t *Table) stale(took time.Duration) bool { return !t.o.NoExpiry && took >= lock.Valid(t.o.Lease) }
