package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// An attempt is one acquisition of a Table, from the first try to the release. No other attempt uses its token.
type attempt struct {
	*Table
	key, name    string // the key, and its name in the row
	token, owner string
}

// try tries once. If another holder has the key, the error is errBusy or, if read is set, a HeldError with the holder's
// name. If the outcome is unknown, try releases before it returns.
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
		return 0, &lock.HeldError{Key: a.key} // other callers were faster, several times
	case mysqlerr.Number(err) == 0, errors.Is(refusal(err), errEnded):
		a.undo(ctx)
	}
	return 0, fault(ctx, acquiring(a.key), err)
}

// undo removes what a try of unknown outcome may have written. The try's statement may still wait at the server, for
// example for the row, and run after a release. So undo repeats the release until it has found our token, or until
// our lease would have run out.
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

// change changes our row. If the row is no longer ours, the error says why.
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
		return errAgain // an earlier statement of ours was executed in between; the caller tries again
	case row.token == a.token || !row.live:
		return lock.ErrExpired
	}
	return lock.ErrTaken
}

const selectRow = "SELECT token, who, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at)" +
	" FROM locks WHERE name = ?"

type lockRow struct {
	token, owner string
	left         time.Duration // time until other callers may take the key; 0 if they may now, or never
	live         bool          // the time limit has not passed
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
