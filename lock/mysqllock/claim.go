package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

// A claim is one acquisition of a Table: a row and the token that only we would write there.
type claim struct {
	*Table
	key, name  string // as asked for, and as the row has it
	token, who string
}

// The statements, each a transaction of its own. UTC_TIMESTAMP is the time at which a statement began: one that had to wait for
// the row grants less than the lease, never more.
const (
	claimRow = "UPDATE locks SET token = ?, who = ?, fence = " + grown + "," +
		" expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE name = ? AND expires_at <= UTC_TIMESTAMP(6)"
	claimNew = "INSERT INTO locks (name, token, who, fence, expires_at) VALUES (?, ?, ?, LAST_INSERT_ID(" + microseconds + ")," +
		" UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)"
	renewRow = "UPDATE locks SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND" +
		" WHERE name = ? AND token = ? AND expires_at > UTC_TIMESTAMP(6)"
	freeRow = "UPDATE locks SET token = '', who = '', expires_at = '1970-01-01' WHERE name = ? AND token = ?"
	showRow = "SELECT token, who, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM locks WHERE name = ?"
)

// try asks once. If another holds the key the error is errBusy, or if look is set a HeldError that says who. Where the outcome
// is unknown it frees before it returns.
func (c claim) try(ctx context.Context, look bool) (lock.Fence, error) {
	conn, err := connect(ctx, c.db)
	if err != nil {
		return 0, fault(ctx, acquiring(c.key), err)
	}
	defer conn.Close()
	late, cancel := linger(ctx)
	defer cancel()
	fence, err := c.ask(late, conn, look)
	switch {
	case err == nil:
		return fence, nil
	case errors.Is(err, errBusy), errors.Is(err, lock.ErrHeld):
		return 0, err
	case collided(err):
		return 0, &lock.HeldError{Key: c.key} // somebody else was quicker, several times
	case mysqlerr.Number(err) == 0:
		c.abandon(ctx)
	}
	return 0, fault(ctx, acquiring(c.key), err)
}

func (c claim) ask(ctx context.Context, conn *sql.Conn, look bool) (lock.Fence, error) {
	result, err := execute(ctx, conn, claimRow, c.token, c.who, span, c.o.Lease.Microseconds(), c.name)
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		fence, wrong := drawn(result)
		return fence, errors.Join(err, wrong)
	}
	if !look {
		return 0, errBusy
	}
	row, err := c.look(ctx, conn)
	if !errors.Is(err, sql.ErrNoRows) {
		if err == nil {
			err = &lock.HeldError{Key: c.key, Holder: row.who, Remaining: row.left}
		}
		return 0, err
	}
	// Not INSERT IGNORE, which would swallow every other error as well. Of three who insert at once, two wait for the first with
	// shared locks, and if that one is rolled back they deadlock: execute tries again.
	result, err = execute(ctx, conn, claimNew, c.name, c.token, c.who, c.o.Lease.Microseconds())
	switch {
	case mysqlerr.Number(err) == mysqlerr.DupEntry:
		return 0, &lock.HeldError{Key: c.key}
	case err != nil:
		return 0, err
	}
	return drawn(result)
}

// A row is what the table says of a key.
type row struct {
	token, who string
	left       time.Duration // until it may be taken; 0: it may, or there is no limit
	live       bool
}

func (c claim) look(ctx context.Context, on interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (r row, err error) {
	var left int64
	err = on.QueryRowContext(ctx, showRow, c.name).Scan(&r.token, &r.who, &left)
	r.live = left > 0
	if r.left = time.Duration(left) * time.Microsecond; r.left < 0 || left > never.Microseconds()/2 {
		r.left = 0
	}
	return r, err
}

// abandon removes what a claim of unknown outcome may have written. A statement that was sent may still lie in a queue of the
// server, or wait for the row behind somebody's transaction, and be done after the one that undoes it. So this is done again
// until it has found something, or until what it did not find would have run out.
func (c claim) abandon(ctx context.Context) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	if c.tell(detached) != nil {
		c.sweeper.Add(time.Now().Add(answerTimeout+c.o.Lease), func(ctx context.Context) bool { return c.tell(ctx) == nil })
	}
}

// free gives the key back; it is ErrExpired or ErrTaken if it was not ours any more. If the server cannot be told, it is told
// later: nobody would get the key until the lease runs out.
func (c claim) free(ctx context.Context) error {
	err := c.tell(ctx)
	if final(err) {
		return err
	}
	c.sweeper.Add(time.Now().Add(c.o.Lease), func(ctx context.Context) bool { return final(c.tell(ctx)) })
	return err
}

// final tells whether a release has met its end: done, or there is nothing to release.
func final(err error) bool {
	return err == nil || errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrTaken)
}

func (c claim) tell(ctx context.Context) error {
	return c.verdict(ctx, "release "+c.name, freeRow, c.name, c.token)
}

// extend asks for another lease.
func (c claim) extend(ctx context.Context) error {
	return c.verdict(ctx, "renew "+c.name, renewRow, c.o.Lease.Microseconds(), c.name, c.token)
}

// verdict changes our row, and if it is not ours any more says why.
func (c claim) verdict(ctx context.Context, doing, query string, args ...any) error {
	result, err := execute(ctx, c.db, query, args...)
	if err != nil {
		return told(ctx, doing, err)
	}
	if n, err := result.RowsAffected(); err != nil || n > 0 {
		return err
	}
	row, err := c.look(ctx, c.db)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return lock.ErrExpired
	case err != nil:
		return told(ctx, doing, err)
	case row.token == c.token && row.live:
		return errAgain // a statement of ours came in between; the caller comes again
	case row.token == c.token || !row.live:
		return lock.ErrExpired
	}
	return lock.ErrTaken
}

// told is fault for who has no wait that could be over: a ctx that ended means that the server did not answer.
func told(ctx context.Context, doing string, err error) error {
	return fault(context.WithoutCancel(ctx), doing, err)
}
