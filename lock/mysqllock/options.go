package mysqllock

import (
	"cmp"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// TableOptions are the options of a Table. A zero field means its default. With a negative one every Acquire returns an
// error that names it.
type TableOptions struct {
	Lease   time.Duration // time limit of the key after a renewal; default 10 s, renewed after each third of it
	MaxHold time.Duration // longest hold, after which the lease is lost; default 5 min
}

func (o TableOptions) check() error {
	return cmp.Or(driver.AtLeast("Lease", o.Lease, 0), driver.AtLeast("MaxHold", o.MaxHold, 0))
}

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
	// third of the pool's connections, or 16 if the pool has no limit.
	MaxConns int
}

func (o ConnOptions) check() error {
	if o.MaxConns < 0 {
		return fmt.Errorf("lock: %w: the option MaxConns is %d, and must be at least 0", lock.ErrInvalid, o.MaxConns)
	}
	return cmp.Or(driver.AtLeast("Lease", o.Lease, 0), driver.AtLeast("MaxHold", o.MaxHold, 0))
}
