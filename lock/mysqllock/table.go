package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
)

// This file is the algorithm of Table, from acquire to release:
//
//  1. UPDATE the row if its time limit has passed. The same statement issues the fence.
//  2. If there is no row, INSERT it.
//  3. If another caller holds the key, sleep for a random time and go back to 1.
//  4. While the key is held, renew: UPDATE the time limit if the row has our token and the limit has not passed. The
//     holder's own clock ends the lease before the server does: see ../keepalive.go.
//  5. To release, UPDATE the row to free if it has our token.
//
// options.go has the type, its promises and options; mysqllock.go fences, the names of keys, connections, time limits
// and errors; inspect.go Inspect, Evict and Keys.

// Each statement is a transaction. UTC_TIMESTAMP is the time at which a statement began: a statement that had to wait
// for the row grants less than the lease, never more.
const (
	acquireRow = "UPDATE locks SET token = ?, who = ?, fence = " + nextFence + "," +
		" expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE name = ? AND expires_at <= UTC_TIMESTAMP(6)"
	readRow = "SELECT token, who, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM locks WHERE name = ?"
	// INSERT IGNORE is not used, because it would also hide every error but that of a duplicate.
	insertRow = "INSERT INTO locks (name, token, who, fence, expires_at) VALUES (?, ?, ?," +
		" LAST_INSERT_ID(" + microseconds + "), UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)"
	renewRow = "UPDATE locks SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND" +
		" WHERE name = ? AND token = ? AND expires_at > UTC_TIMESTAMP(6)"
	releaseRow = "UPDATE locks SET token = '', who = '', expires_at = '1970-01-01' WHERE name = ? AND token = ?"
)

const (
	minBackoff = 2 * time.Millisecond // first pause between two tries of a waiter; pauses double
	maxBackoff = 50 * time.Millisecond
	readEvery  = time.Second // how often a waiter reads the row: it must insert the row if somebody has deleted it
)

// An attempt is one try to acquire a key and, if it succeeds, the holding of it. No other attempt has its token.
type attempt struct {
	*Table
	key, name    string // the key, and its name in the row
	token, owner string
}

// read reads the row. left is the time until other callers may take the key; if it is not positive, they may now.
func (a attempt) read(ctx context.Context, on querier) (token, who string, left time.Duration, err error) {
	var micros int64
	err = on.QueryRowContext(ctx, readRow, a.name).Scan(&token, &who, &micros)
	return token, who, time.Duration(micros) * time.Microsecond, err
}

// Acquire tries to get key, and retries until ctx ends, or tries once with TryOnce.
func (t *Table) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := cmp.Or(t.o.check(), t.life.MayAcquire(ctx, key)); err != nil {
		return nil, err
	}
	ctx, stop := t.life.Wait(ctx)
	defer stop()
	a := attempt{Table: t, key: key, name: columnName(key), owner: ownerColumn(o.Owner)}
	var seen error // why the earlier tries have failed
	var lastRead time.Time
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		a.token = uuid.NewString() // a new one for each try, because an earlier try may be undone later
		sent := time.Now()
		fence, err := a.try(ctx, sent.Sub(lastRead) >= readEvery)
		switch {
		case err == nil:
			return a.lease(sent, fence), nil
		case errors.Is(err, lock.ErrHeld):
			seen, lastRead = err, sent
		case errors.Is(err, errBusy): // still held, as was read before
		case interrupted(err) && !o.TryOnce:
			seen = cmp.Or(seen, error(&lock.HeldError{Key: key}))
		case errors.Is(err, lock.ErrNoCapacity) && !o.TryOnce && ctx.Err() == nil:
			seen = cmp.Or(seen, err)
		default:
			return nil, errors.Join(seen, err)
		}
		if o.TryOnce {
			return nil, seen
		}
		if ended := driver.Sleep(ctx, jitter(pause)); ended != nil {
			return nil, errors.Join(seen, ended)
		}
	}
}

// try tries once. If another holder has the key, the error is errBusy or, if read is set, a HeldError with the holder's
// name. If the outcome is unknown, try undoes it before it returns.
func (a attempt) try(ctx context.Context, read bool) (lock.Fence, error) {
	conn, err := connect(ctx, a.db)
	if err != nil {
		return 0, fault(ctx, acquiring(a.key), err)
	}
	late, cancel := withGrace(ctx)
	defer cancel()
	fence, err := a.take(late, conn, read)
	giveBack(conn, err)
	switch {
	case err == nil, errors.Is(err, errBusy), errors.Is(err, lock.ErrHeld):
		return fence, err
	case collided(err):
		return 0, &lock.HeldError{Key: a.key} // other callers were faster, several times
	case mysqlerr.Number(err) == 0, interrupted(err): // also if it was the second statement: the first may have run
		a.undo(ctx)
	}
	return 0, fault(ctx, acquiring(a.key), err)
}

// take sends steps 1 and, if read is set, 2.
func (a attempt) take(ctx context.Context, conn *sql.Conn, read bool) (lock.Fence, error) {
	result, err := execute(ctx, conn, acquireRow, a.token, a.owner, driver.FenceRange, a.o.Lease.Microseconds(), a.name)
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
	_, who, left, err := a.read(ctx, conn)
	if err == nil {
		return 0, &lock.HeldError{Key: a.key, Holder: who, Remaining: max(left, 0)}
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	fence, err := draw(ctx, conn, insertRow, a.name, a.token, a.owner, a.o.Lease.Microseconds())
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		return 0, &lock.HeldError{Key: a.key}
	}
	return fence, err
}

// lease returns the lease of an attempt that was granted.
func (a attempt) lease(sent time.Time, f lock.Fence) *lock.Lease {
	l, _ := lock.NewLease(a.key, f, a.release)
	renew := func(ctx context.Context) error {
		return a.change(ctx, "renew "+a.name, renewRow, a.o.Lease.Microseconds(), a.name, a.token)
	}
	l.KeepAlive(sent, lock.Renewal{TTL: a.o.Lease, Every: a.o.Lease / 3, Max: a.o.MaxHold, Renew: renew})
	return l
}

// release is step 5. If no reply arrives, the release is repeated in the background, because otherwise the key could
// stay taken until the lease runs out.
func (a attempt) release(ctx context.Context) error {
	return a.free(ctx, a.o.Lease, releaseDone)
}

// undo gives back what an attempt of unknown outcome may have got. Its statement may still wait at the server, for
// example for the row, and run after a release. So undo repeats the release until it has found our token, or until our
// lease would have run out.
func (a attempt) undo(ctx context.Context) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	_ = a.free(detached, answerTimeout+a.o.Lease, func(err error) bool { return err == nil })
}

// free releases. It repeats that in the background for as long as repeat, until the error is one that done accepts.
func (a attempt) free(ctx context.Context, repeat time.Duration, done func(error) bool) error {
	try := func(ctx context.Context) error {
		return a.change(ctx, "release "+a.name, releaseRow, a.name, a.token)
	}
	err := try(ctx)
	if !done(err) {
		a.life.Repeat(time.Now().Add(repeat), func(ctx context.Context) bool { return done(try(ctx)) })
	}
	return err
}

// change changes our row. If the row is no longer ours, the error says why.
func (a attempt) change(ctx context.Context, doing, query string, args ...any) error {
	conn, err := connect(ctx, a.db)
	if err != nil {
		return serverFault(doing, err)
	}
	result, err := execute(ctx, conn, query, args...)
	giveBack(conn, err)
	if err != nil {
		return serverFault(doing, err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	token, _, left, err := a.read(ctx, a.db)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lock.ErrExpired
	case err != nil:
		return serverFault(doing, err)
	case token == a.token && left > 0:
		return errUndone // an earlier statement of ours was executed in between; the caller tries again
	case token == a.token, left <= 0:
		return lock.ErrExpired
	}
	return lock.ErrTaken
}
