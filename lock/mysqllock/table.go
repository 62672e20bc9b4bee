package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/stock/lock"
)

// TableOptions are the choices of a Table; a zero field means its default.
type TableOptions struct {
	Lease      time.Duration // the server lets others in this long after the last renewal; default 10 s, renewed every third
	MaxHold    time.Duration // renewal ends after this and the lease is lost: a hung holder must not hold for ever; default 5 min
	MinBackoff time.Duration // first pause between tries of a caller who waits; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms
	// NoExpiry leaves out the time limit, as the lock tables of many a shop do: a holder that crashes is never followed, until
	// somebody clears its row by hand. It is there to be seen in the lab.
	NoExpiry bool
}

// lookEvery is how often one who polls looks at the row: somebody may have deleted it, and then there is nothing to update.
const lookEvery = time.Second

// never is the lease of a holder without a time limit.
const never = 200 * 365 * 24 * time.Hour

// noExpiryLinger is how long an abandoned key without a time limit stays taken.
const noExpiryLinger = 10 * time.Second

// Table is a lock table: a row per key with the token of its owner and a time limit by the server's clock. Clients' clocks are
// not asked: one that is ahead would take the key from a holder who still has it.
//
// Algorithm: UPDATE the row if its time has passed, which also draws the fence; INSERT it where there is none. Renewal and
// release are UPDATEs that name the token. The row of a key stays for 48 h after it was last acquired; see forgetter. Any that is
// free may be deleted at any time, and the fence still grows.
//
// Round trips: 2 uncontended (acquire 1, release 1), and one per renewal. The first use of a key costs 2 more. A try
// (lock.NoWait) that fails costs 2: the second asks who holds it. One who waits polls, one round trip each time, with pauses
// that double from MinBackoff to MaxBackoff, each drawn at random between half and all of it, and 1 every second to see who holds
// it, if anybody. 30 waiters are some 800
// statements a second, and the next holder comes in up to MaxBackoff late: that is the price of a table, which can wake nobody.
// It is not fair.
//
// Promises: exclusion while no lease runs out; the holder is told when it does, by its own clock before the server's; a fence;
// a crashed holder is followed within Lease. Does not promise: order, or exclusion if the server's clock is set ahead by more
// than what a lease has left (the fence refuses the late write).
type Table struct {
	db      *sql.DB
	o       TableOptions
	sweeper *lock.Sweeper
	rows    *forgetter
}

// NewTable makes a Table on db, which it keeps a connection of for each statement only. Close it when no lease is held any more.
func NewTable(db *sql.DB, o TableOptions) *Table {
	def(&o.Lease, 10*time.Second)
	def(&o.MaxHold, 5*time.Minute)
	def(&o.MinBackoff, 2*time.Millisecond)
	def(&o.MaxBackoff, 50*time.Millisecond)
	if o.NoExpiry {
		o.Lease = never
	}
	forget := func(ctx context.Context) error { return claims.forget(ctx, db, memory) }
	return &Table{db, o, lock.NewSweeper(), newForgetter(forget)}
}

// FenceRange is how far fences are apart.
func (t *Table) FenceRange() uint64 { return span }

// Close gives up the releases that have not reached the server yet; their keys run out with the lease.
func (t *Table) Close() error {
	t.sweeper.Close()
	t.rows.close()
	return nil
}

// Acquire tries, and if ctx allows tries again until ctx ends.
func (t *Table) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	c := claim{t, key, columnName(key), uuid.NewString(), shown(o.Owner)}
	t.rows.used()
	var held *lock.HeldError // what was found out at the last look
	var looked time.Time
	for pause := t.o.MinBackoff; ; pause = min(2*pause, t.o.MaxBackoff) {
		sent := time.Now()
		fence, err := c.try(ctx, held == nil || sent.Sub(looked) >= lookEvery)
		switch {
		case err == nil && !t.o.NoExpiry && time.Since(sent) >= lock.Valid(t.o.Lease):
			// We were stopped, or the answer was held up: what was granted has run out, and may be another's by now.
			// The next try has a token of its own, because the release of this one may be made up for later.
			c.abandon(ctx)
			c.token, held = uuid.NewString(), &lock.HeldError{Key: key}
		case err == nil:
			return c.hold(sent, fence), nil
		case errors.Is(err, errBusy):
		case errors.As(err, &held):
			looked = sent
		case held != nil:
			return nil, errors.Join(held, err)
		default:
			return nil, err
		}
		if o.TryOnce {
			return nil, held
		}
		if ended := lock.Sleep(ctx, jitter(pause)); ended != nil {
			return nil, errors.Join(held, ended)
		}
	}
}

// hold makes the lease of a granted claim.
func (c claim) hold(sent time.Time, f lock.Fence) *lock.Lease {
	l, _ := lock.NewLease(c.key, f, c.free)
	if c.o.NoExpiry {
		l.Linger(noExpiryLinger)
	} else {
		l.Keep(sent, lock.Keep{TTL: c.o.Lease, Every: c.o.Lease / 3, Max: c.o.MaxHold, Renew: c.extend})
	}
	return l
}

// shown is who as its column takes it: 255 characters of UTF-8.
func shown(who string) string {
	who = strings.ToValidUTF8(who, "?")
	if utf8.RuneCountInString(who) > 255 {
		who = string([]rune(who)[:255])
	}
	return who
}
