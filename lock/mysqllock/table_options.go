package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"time"

	"example.com/stock/lock"
)

// TableOptions are the options of a Table. A zero field means its default. With a negative one every Acquire returns an
// error that names it.
type TableOptions struct {
	Lease      time.Duration // time limit of the key after a renewal; default 10 s, renewed after each third of it
	MaxHold    time.Duration // longest hold, after which the lease is lost; default 5 min
	MinBackoff time.Duration // first pause between two tries of a waiter; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms
	// NoExpiry omits the time limit, as many homemade lock tables do. After a crash of the holder no caller gets the
	// key until the row is cleared by hand. The lab uses it to show this failure.
	NoExpiry bool
}

const (
	// readEvery is how often a waiter reads the row, because it must insert the row if it was deleted.
	readEvery = time.Second
	// never is the lease of a holder without a time limit.
	never = 200 * 365 * 24 * time.Hour
	// noExpiryLinger is how long an abandoned key without a time limit stays taken.
	noExpiryLinger = 10 * time.Second
)

func (o TableOptions) check() error {
	return cmp.Or(lock.AtLeast("Lease", o.Lease, 0), lock.AtLeast("MaxHold", o.MaxHold, 0),
		lock.AtLeast("MinBackoff", o.MinBackoff, 0), lock.AtLeast("MaxBackoff", o.MaxBackoff, 0))
}

// NewTable returns a Table on db. Each statement uses a connection only while it runs. Close the Table when all
// leases have ended.
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

// keep returns the Keep of a lease, without Renew.
func (t *Table) keep() lock.Keep {
	return lock.Keep{TTL: t.o.Lease, Every: t.o.Lease / 3, Max: t.o.MaxHold}
}

// stale reports whether a lease has run out if its reply took this long.
func (t *Table) stale(took time.Duration) bool { return !t.o.NoExpiry && took >= lock.Valid(t.o.Lease) }
