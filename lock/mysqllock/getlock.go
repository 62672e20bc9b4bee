package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// GetLock is a named lock of the server, GET_LOCK. It belongs to the connection that called GET_LOCK, and to no
// transaction.
//
// Algorithm: GET_LOCK; issue the fence on the same connection, which commits each statement; RELEASE_LOCK, and check
// its result. The name is made of the database and the key (see namedLockName). Waiters are in the server's queue, one
// connection per key and process. The wait is session.request: if the server has vanished, nothing but the caller's ctx
// ends it. A waiter that gives up ends its connection with KILL, because the server is slow to notice that the client
// no longer waits.
//
// Round trips: 3 uncontended (lock, fence, release), and one every second. A new connection costs 2. A failed try
// (lock.Options.TryOnce) costs 1. Waiting costs 1 every 30 s, giving up 3 and a connection.
//
// Connections and promises are as for [ForUpdate], but the order of waiters is up to the server. A named lock is
// neither replicated nor part of any transaction.
//
// The connection is never returned to the pool. A named lock ends only when it is released or the connection ends;
// ROLLBACK does not end it. So the next user of such a connection would hold the lock without knowing it.
type GetLock struct{ *pinned }

// NewGetLock returns a GetLock on db. It keeps connections of db as [NewForUpdate] does, and draws fences on them.
// Close it when all leases have ended.
func NewGetLock(db *sql.DB, o ConnOptions) *GetLock {
	return &GetLock{newPinned(db, o, namedLock{})}
}

type namedLock struct{}

func (namedLock) setup(lease int) []string {
	return []string{fmt.Sprintf(
		"SET SESSION autocommit = 1, wait_timeout = %d, innodb_lock_wait_timeout = 1"+unlimited, lease)}
}

func (n namedLock) acquire(ctx context.Context, s *session, key string, o lock.Options) error {
	var got sql.NullBool
	query, seconds := "SELECT GET_LOCK(?, ?)", 0
	if !o.TryOnce {
		query, seconds = query+waitLabel(key, o.Owner, time.Now()), waitLimit
	}
	err := s.request(ctx, o, func(ctx context.Context) error {
		return s.conn.QueryRowContext(ctx, query, namedLockName(s.database, key), seconds).Scan(&got)
	})
	switch {
	case err == nil && got.Bool:
		return nil
	case err == nil && got.Valid:
		return errBusy
	case err == nil:
		err = errUndone // NULL: it was interrupted
	}
	if !s.broken {
		// The server has answered that it has not granted the lock. This is rare, so a round trip to check it is cheap.
		released := n.release(ctx, s, key)
		s.broken = !errors.Is(released, lock.ErrExpired) && !errors.Is(released, lock.ErrTaken)
	}
	return refusal(err)
}

func (namedLock) drawFence(
	ctx context.Context, s *session, key string, o lock.Options,
) (fence lock.Fence, sent time.Time, err error) {
	sent = time.Now()
	err = s.ask(ctx, func(ctx context.Context) error {
		fence, err = drawFenceAs(ctx, s.conn, columnName(key), ownerColumn(o.Owner), s.id)
		return err
	})
	return fence, sent, err
}

func (namedLock) holds(ctx context.Context, s *session, key string) (has bool, err error) {
	const query = "SELECT COALESCE(IS_USED_LOCK(?) = CONNECTION_ID(), FALSE)"
	err = s.conn.QueryRowContext(ctx, query, namedLockName(s.database, key)).Scan(&has)
	return has, err
}

func (namedLock) release(ctx context.Context, s *session, key string) error {
	var released sql.NullBool
	err := s.ask(ctx, func(ctx context.Context) error {
		return s.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", namedLockName(s.database, key)).Scan(&released)
	})
	switch {
	case err != nil:
		return err
	case !released.Valid:
		return lock.ErrExpired // the lock is free
	case !released.Bool:
		return lock.ErrTaken
	}
	return nil
}
