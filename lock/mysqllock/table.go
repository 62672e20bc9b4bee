package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// TableOptions are the choices of a Table. A zero field means its default.
type TableOptions struct {
	Lease      time.Duration // after the last renewal; default 10 s, renewed every third
	MaxHold    time.Duration // the lease is lost after this: a hung holder must not hold for ever; default 5 min
	MinBackoff time.Duration // first pause between two tries of a waiter; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms
	// NoExpiry leaves out the time limit, as many a shop's lock table does. Nobody ever gets the key of a holder that
	// crashed, until somebody clears its row by hand. The lab uses it to show that.
	NoExpiry bool
}

const (
	// readEvery is how often a waiter reads the row: somebody may have deleted it, and then there is nothing to update.
	readEvery = time.Second
	// never is the lease of a holder without a time limit.
	never = 200 * 365 * 24 * time.Hour
	// noExpiryLinger is how long an abandoned key without a time limit stays taken.
	noExpiryLinger = 10 * time.Second
)

// Table is a lock table: a row per key, with the token of its owner and a time limit by the server's clock. The
// clients' clocks do not count: one that is ahead would take the key from a holder that still has it.
//
// Algorithm: UPDATE the row if its time has passed, which also draws the fence; INSERT it if there is none. Renewal
// and release are UPDATEs that name the token. The row of a key stays for 48 h after it was last acquired; see
// forgetter. A row that is free may be deleted at any time, and the fence still grows.
//
// Round trips: 2 uncontended (acquire 1, release 1), and one per renewal. The first use of a key costs 2 more. A try
// that fails (lock.Options.TryOnce) costs 2: the second asks who holds the key. A waiter polls, one round trip each
// time, with pauses that double from MinBackoff to MaxBackoff, each drawn at random between half and all of it. One
// more round trip every second asks who holds the key, if anybody. 30 waiters send some 800 statements a second, and
// the next holder comes in up to MaxBackoff late. That is the price of a table, which can wake nobody. It is not
// fair.
//
// Promises: exclusion while no lease runs out. The holder is told when its lease runs out, by its own clock before
// the server's. A fence. After a crash of the holder the next one has the key within Lease.
//
// Does not promise: order. Nor exclusion if the server's clock is set ahead by more than what a lease has left (the
// fence refuses the late write).
type Table struct {
	db      *sql.DB
	o       TableOptions
	sweeper *lock.Sweeper
	rows    *forgetter
}

// NewTable makes a Table on db. It takes a connection for one statement at a time only. Close the Table when no lease
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

// Close gives up the releases that have not reached the server yet. Their keys become free when the lease runs out.
func (t *Table) Close() error {
	t.sweeper.Close()
	t.rows.close()
	return nil
}

// Acquire tries to get key, and unless o says to try once tries again until ctx ends.
func (t *Table) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a := attempt{t, key, columnName(key), uuid.NewString(), ownerColumn(o.Owner)}
	t.rows.start()
	var held *lock.HeldError // what the last reading said
	var lastRead time.Time
	for pause := t.o.MinBackoff; ; pause = min(2*pause, t.o.MaxBackoff) {
		sent := time.Now()
		fence, err := a.try(ctx, held == nil || sent.Sub(lastRead) >= readEvery)
		switch {
		case err == nil && t.stale(time.Since(sent)):
			// This process was stopped, or the answer was delayed: the lease has run out, and another may hold the
			// key by now. The next try has a token of its own, because the release of this one may be sent again
			// later.
			a.undo(ctx)
			a.token, held = uuid.NewString(), &lock.HeldError{Key: key}
		case err == nil:
			return a.lease(sent, fence), nil
		case errors.Is(err, errBusy):
		case errors.As(err, &held):
			lastRead = sent
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

// An attempt is one acquisition of a Table, from the first try to the release. Nobody else writes its token into a row.
type attempt struct {
	*Table
	key, name    string // as the caller has it, and as the row has it
	token, owner string
}

// The statements, each a transaction of its own. UTC_TIMESTAMP is the time at which a statement began: a statement
// that had to wait for the row grants less than the lease, never more.
const (
	acquireRow = "UPDATE locks SET token = ?, who = ?, fence = " + nextFence + "," +
		" expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE name = ? AND expires_at <= UTC_TIMESTAMP(6)"
	insertRow = "INSERT INTO locks (name, token, who, fence, expires_at) VALUES (?, ?, ?," +
		" LAST_INSERT_ID(" + microseconds + "), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)"
	renewRow = "UPDATE locks SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND" +
		" WHERE name = ? AND token = ? AND expires_at > UTC_TIMESTAMP(6)"
	releaseRow = "UPDATE locks SET token = '', who = '', expires_at = '1970-01-01' WHERE name = ? AND token = ?"
	selectRow  = "SELECT token, who, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM locks WHERE name = ?"
)

// try tries once. If another holds the key the error is errBusy, or with read a HeldError that says who. If the
// outcome is unknown, try releases before it returns.
func (a attempt) try(ctx context.Context, read bool) (lock.Fence, error) {
	conn, err := connect(ctx, a.db)
	if err != nil {
		return 0, fault(ctx, acquiring(a.key), err)
	}
	defer conn.Close()
	late, cancel := withGrace(ctx)
	defer cancel()
	fence, err := a.send(late, conn, read)
	switch {
	case err == nil:
		return fence, nil
	case errors.Is(err, errBusy), errors.Is(err, lock.ErrHeld):
		return 0, err
	case collided(err):
		return 0, &lock.HeldError{Key: a.key} // somebody else was quicker, several times
	case mysqlerr.Number(err) == 0:
		a.undo(ctx)
	}
	return 0, fault(ctx, acquiring(a.key), err)
}

// send sends the statements of try.
func (a attempt) send(ctx context.Context, conn *sql.Conn, read bool) (lock.Fence, error) {
	result, err := execute(ctx, conn, acquireRow, a.token, a.owner, fenceDistance, a.o.Lease.Microseconds(), a.name)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		fence, wrong := drawnFence(result)
		return fence, errors.Join(err, wrong)
	}
	if !read {
		return 0, errBusy
	}
	row, err := a.readRow(ctx, conn)
	if !errors.Is(err, sql.ErrNoRows) {
		if err == nil {
			err = &lock.HeldError{Key: a.key, Holder: row.owner, Remaining: row.left}
		}
		return 0, err
	}
	// Not INSERT IGNORE, which would swallow every other error as well. Of three clients that insert at once, two
	// wait for the first with shared locks. If the first is rolled back they deadlock, and execute tries again.
	result, err = execute(ctx, conn, insertRow, a.name, a.token, a.owner, a.o.Lease.Microseconds())
	switch {
	case mysqlerr.Number(err) == mysqlerr.DupEntry:
		return 0, &lock.HeldError{Key: a.key}
	case err != nil:
		return 0, err
	}
	return drawnFence(result)
}

// lease makes the lease of an attempt that was granted.
func (a attempt) lease(sent time.Time, f lock.Fence) *lock.Lease {
	l, _ := lock.NewLease(a.key, f, a.release)
	if a.o.NoExpiry {
		l.Linger(noExpiryLinger)
	} else {
		k := a.keep()
		k.Renew = a.renew
		l.Keep(sent, k)
	}
	return l
}

// keep is how a lease stays alive, but for the renewal.
func (t *Table) keep() lock.Keep {
	return lock.Keep{TTL: t.o.Lease, Every: t.o.Lease / 3, Max: t.o.MaxHold}
}

// stale reports whether nothing is left of a lease whose answer took so long.
func (t *Table) stale(took time.Duration) bool { return !t.o.NoExpiry && took >= lock.Valid(t.o.Lease) }

// renew asks for another lease.
func (a attempt) renew(ctx context.Context) error {
	return a.change(ctx, "renew "+a.name, renewRow, a.o.Lease.Microseconds(), a.name, a.token)
}

// release gives the key back. The error is ErrExpired or ErrTaken if it was not ours any more. If the server cannot
// be told now, it is told later: nobody would get the key until the lease runs out.
func (a attempt) release(ctx context.Context) error {
	err := a.tryRelease(ctx)
	if releaseDone(err) {
		return err
	}
	a.sweeper.Add(time.Now().Add(a.o.Lease), func(ctx context.Context) bool { return releaseDone(a.tryRelease(ctx)) })
	return err
}

// undo removes what a try of unknown outcome may have written. A statement that was sent may still be in a queue of
// the server, or wait for the row behind somebody's transaction, and run after the statement that undoes it. So undo
// sends the release again until it has found something, or until what it did not find would have run out.
func (a attempt) undo(ctx context.Context) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	if a.tryRelease(detached) != nil {
		until := time.Now().Add(answerTimeout + a.o.Lease)
		a.sweeper.Add(until, func(ctx context.Context) bool { return a.tryRelease(ctx) == nil })
	}
}

func (a attempt) tryRelease(ctx context.Context) error {
	return a.change(ctx, "release "+a.name, releaseRow, a.name, a.token)
}

// change changes our row. If the row is not ours any more, the error says why.
func (a attempt) change(ctx context.Context, doing, query string, args ...any) error {
	result, err := execute(ctx, a.db, query, args...)
	if err != nil {
		return serverFault(doing, err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	row, err := a.readRow(ctx, a.db)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lock.ErrExpired
	case err != nil:
		return serverFault(doing, err)
	case row.token == a.token && row.live:
		return errAgain // another statement of ours came in between; the caller tries again
	case row.token == a.token || !row.live:
		return lock.ErrExpired
	}
	return lock.ErrTaken
}

// A lockRow is what the table says about a key.
type lockRow struct {
	token, owner string
	left         time.Duration // until others may take the key; 0: they may now, or never
	live         bool
}

func (a attempt) readRow(ctx context.Context, on interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (r lockRow, err error) {
	var left int64
	err = on.QueryRowContext(ctx, selectRow, a.name).Scan(&r.token, &r.owner, &left)
	r.live = left > 0
	if r.left = time.Duration(left) * time.Microsecond; r.left < 0 || left > never.Microseconds()/2 {
		r.left = 0
	}
	return r, err
}
