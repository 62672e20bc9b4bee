package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"example.com/stock/lock"
)

// This file has the row of a Table: the statements that read and change it.

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
	result, err := executeAlone(ctx, a.db, query, args...)
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

// read reads the row. left is the time until other callers may take the key; if it is not positive, they may now.
func (a attempt) read(ctx context.Context, on querier) (token, who string, left time.Duration, err error) {
	var micros int64
	err = on.QueryRowContext(ctx, readRow, a.name).Scan(&token, &who, &micros)
	return token, who, time.Duration(micros) * time.Microsecond, err
}
