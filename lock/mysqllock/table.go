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

// This file is the algorithm of Table, from acquire to release. The other files add:
//
//	options.go       the type, its steps, promises and options
//	row.go           the statements, and what repeats a release without an answer
//	mysqllock.go     fences, the names of keys, connections, time limits, and errors
//	inspect.go       Inspect, Evict and Keys
//	../keepalive.go  renews, and reports a loss by the holder's own clock before the server frees the key

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
