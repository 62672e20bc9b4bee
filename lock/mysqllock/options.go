package mysqllock

import (
	"cmp"
	"database/sql"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// ConnOptions are the options of a lock that lives in a connection. A zero field means its default. With a negative one
// every Acquire returns an error that names it.
type ConnOptions struct {
	// Lease is how long the server keeps a silent connection, in whole seconds; default 10 s. A holder asks the server
	// every second, or five times in a lease, whether it still has the key. If the holder's computer dies, freezes or
	// is cut off, the next caller gets the key after Lease.
	Lease   time.Duration
	MaxHold time.Duration // the lease is lost after this, so that a hung holder does not hold for ever; default 5 min
	// MaxConns is how many keys can be held at a time, with a connection each. At most half of the connections wait
	// at the server; other waiters poll. A caller that finds no free connection gets lock.ErrNoCapacity. Default: a
	// third of the connections that the pool allows (SetMaxOpenConns), or 16 if it has no limit. One connection of the
	// pool is always left for other statements.
	MaxConns int
}

func (o ConnOptions) check() error {
	if o.MaxConns < 0 {
		return fmt.Errorf("lock: %w: the option MaxConns is %d, and must be at least 0", lock.ErrInvalid, o.MaxConns)
	}
	return cmp.Or(driver.AtLeast("Lease", o.Lease, 0), driver.AtLeast("MaxHold", o.MaxHold, 0))
}

// TableOptions are the options of a Table. A zero field means its default. With a negative one every Acquire returns an
// error that names it.
type TableOptions struct {
	Lease   time.Duration // time limit of the key after a renewal; default 10 s, renewed after each third of it
	MaxHold time.Duration // longest hold, after which the lease is lost; default 5 min
}

func (o TableOptions) check() error {
	return cmp.Or(driver.AtLeast("Lease", o.Lease, 0), driver.AtLeast("MaxHold", o.MaxHold, 0))
}

// Table is a lock table: a row per key, with the token of its owner and a time limit by the server's clock. The
// clients' clocks are not used, because a client whose clock is ahead would take the key from its holder too early.
// The algorithm is in table.go.
//
// Round trips: 2 uncontended (acquire 1, release 1), and one per renewal. The first use of a key costs 2 more. A failed
// try (lock.Options.TryOnce) costs 2; the second round trip reads the holder. A waiter polls, and reads the holder
// every second. Because of the polling, the next holder may start up to 50 ms late, and 30 waiters send some 800
// statements a second; [lock.HandOver] makes them one waiter for each process.
//
// Promises: exclusion while no lease runs out; a lease that reports its end, by the holder's clock, before the server's
// time limit; a fence; after a crash of the holder another caller can get the key within Lease. It does not promise
// order, nor exclusion if the server's clock is set ahead by more than the rest of a lease. The fence refuses the late
// write.
type Table struct {
	db   *sql.DB
	o    TableOptions
	life *driver.Life
}

// NewTable returns a Table on db. Each statement uses a connection only while it runs. But each waiter sends
// statements, and nothing here bounds the connections: limit them with db.SetMaxOpenConns, or 1,000 waiters open
// hundreds. With a limit of 10 they take turns. Close the Table when all leases have ended.
func NewTable(db *sql.DB, o TableOptions) *Table {
	o.Lease = cmp.Or(o.Lease, 10*time.Second)
	o.MaxHold = cmp.Or(o.MaxHold, 5*time.Minute)
	return &Table{db, o, driver.NewLife()}
}

// Promise is what it promises with the defaults of its options.
func (*Table) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Blocking: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 10 * time.Second,
	}
}

// FenceRange returns the distance between two fences.
func (t *Table) FenceRange() uint64 { return driver.FenceRange }

// Close ends the waits, with lock.ErrClosed. It drops the releases that have not reached the server yet. Their keys
// become free when the lease runs out.
func (t *Table) Close() error {
	t.life.Close()
	return nil
}
