package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// This file has the whole algorithm. The other files add:
//
//	table_row.go      after no reply: undoes the try, or repeats the release in the background
//	mysqllock.go      statements with a time limit, the fence of a statement, names of keys, errors
//	../keepalive.go   renewals, and the holder's own clock, which ends the lease before the server does
//	../handover.go    one process hands one lease from caller to caller
//	forget.go         deletes the rows of unused keys; inspect.go has Inspect, Evict and Keys

// Table is a lock table: a row per key, with the token of its owner and a time limit by the server's clock. The
// clients' clocks are not used, because a client whose clock is ahead would take the key from its holder too early.
//
//  1. UPDATE the row if its time limit has passed. The same statement issues the fence.
//  2. If there is no row, INSERT it.
//  3. If another caller holds the key, sleep for a random time and go back to 1.
//  4. While the key is held, renew: UPDATE the time limit if the row has our token and the limit has not passed.
//  5. To release, UPDATE the row to free if it has our token.
//
// Round trips: 2 uncontended (acquire 1, release 1), and one per renewal. The first use of a key costs 2 more. A failed
// try (lock.Options.TryOnce) costs 2; the second round trip reads the holder. A waiter polls, and reads the holder
// every second. Because of the polling, the next holder may start up to MaxBackoff late, and 30 waiters send some 800
// statements a second.
//
// Promises: exclusion while no lease runs out; a lease that reports its end, by the holder's clock, before the server's
// time limit; a fence; after a crash of the holder another caller can get the key within Lease. It does not promise
// order, nor exclusion if the server's clock is set ahead by more than the rest of a lease. The fence refuses the late
// write.
type Table struct {
	db      *sql.DB
	o       TableOptions
	sweeper *lock.Sweeper
	rows    *forgetter
}

// Each statement is a transaction. UTC_TIMESTAMP is the time at which a statement began: a statement that had to wait
// for the row grants less than the lease, never more.
const (
	acquireRow = "UPDATE locks SET token = ?, who = ?, fence = " + nextFence + "," +
		" expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE name = ? AND expires_at <= UTC_TIMESTAMP(6)"
	insertRow = "INSERT INTO locks (name, token, who, fence, expires_at) VALUES (?, ?, ?," +
		" LAST_INSERT_ID(" + microseconds + "), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)"
	renewRow = "UPDATE locks SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND" +
		" WHERE name = ? AND token = ? AND expires_at > UTC_TIMESTAMP(6)"
	releaseRow = "UPDATE locks SET token = '', who = '', expires_at = '1970-01-01' WHERE name = ? AND token = ?"
)

// Acquire tries to get key, and retries until ctx ends, or tries once with TryOnce.
func (t *Table) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := lock.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	if err := t.o.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", acquiring(key), err)
	}
	a := attempt{t, key, columnName(key), uuid.NewString(), ownerColumn(o.Owner)}
	t.rows.start()
	var held *lock.HeldError // the result of the last read
	var lastRead time.Time
	var noRoom error // why nothing is known about the holder
	for pause := t.o.MinBackoff; ; pause = min(2*pause, t.o.MaxBackoff) {
		sent := time.Now()
		fence, err := a.try(ctx, held == nil || sent.Sub(lastRead) >= readEvery)
		switch {
		case err == nil && t.stale(time.Since(sent)):
			// The reply took so long that the lease has run out. The next try has a new token, because the release of
			// this one may be repeated later.
			a.undo(ctx)
			a.token, held = uuid.NewString(), &lock.HeldError{Key: key}
		case errors.Is(refusal(err), errEnded) && !o.TryOnce:
			// The server ended a statement of the try, and may have executed another one, which try has undone.
			a.token, held = uuid.NewString(), cmp.Or(held, &lock.HeldError{Key: key})
		case err == nil:
			return a.lease(sent, fence), nil
		case errors.Is(err, errBusy):
		case errors.Is(err, lock.ErrNoCapacity) && !o.TryOnce && ctx.Err() == nil:
			noRoom = err
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
			if held == nil {
				return nil, errors.Join(noRoom, ended)
			}
			return nil, errors.Join(held, ended)
		}
	}
}

// send sends the statements of one try: step 1 and, if read is set, step 2. See try for the errors.
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
	// INSERT IGNORE is not used, because it would also hide every other error.
	result, err = execute(ctx, conn, insertRow, a.name, a.token, a.owner, a.o.Lease.Microseconds())
	switch {
	case mysqlerr.Number(err) == mysqlerr.DupEntry:
		return 0, &lock.HeldError{Key: a.key}
	case err != nil:
		return 0, err
	}
	return drawnFence(result)
}

// lease returns the lease of a granted attempt.
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

func (a attempt) renew(ctx context.Context) error {
	return a.change(ctx, "renew "+a.name, renewRow, a.o.Lease.Microseconds(), a.name, a.token)
}

// release is step 5. If no reply arrives, the release is repeated in the background, because otherwise the key could
// stay taken until the lease runs out.
func (a attempt) release(ctx context.Context) error {
	err := a.tryRelease(ctx)
	if releaseDone(err) {
		return err
	}
	a.sweeper.Add(time.Now().Add(a.o.Lease), func(ctx context.Context) bool { return releaseDone(a.tryRelease(ctx)) })
	return err
}
