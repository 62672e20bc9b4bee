package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// ForUpdate is a row lock: SELECT ... FOR UPDATE of a row in a separate table, in a transaction that stays open as long
// as the lease and is never committed.
//
// The row is not the row of the stock. A caller that locked the stock's row here and sold on another connection would
// wait for itself until innodb_lock_wait_timeout.
//
// Algorithm: select the row. If there is none yet, insert it, commit, and select again. Then issue the fence on another
// connection (see drawFence), and mark the row with the number of the connection that holds it. The mark also shows
// that this connection, and so the lock, still existed when the fence was issued. Release is ROLLBACK, which removes
// the mark. Waiters are in the server's queue, one connection per key and process. A waiter that gives up ends its
// connection with KILL, because the server does not notice that the client no longer waits.
//
// Round trips: 4 uncontended (lock, fence, mark, release), and one every second. The first use of a key costs 3 more, a
// new connection 3. A failed try (lock.Options.TryOnce) costs 2. Waiting costs 2 every 30 s, giving up 3 and a
// connection.
//
// Connections: each held key has one, and MaxConns limits them. At most half of them wait in the server's queue. Other
// waiters poll, with 2 round trips every 10 to 100 ms, so that there are connections for other keys even if some keys
// are not released. If all connections hold keys, a try returns lock.ErrNoCapacity, and a waiter gets the next
// connection that becomes free.
//
// Promises: exclusion while no lease is lost; a fence. If the holder's process ends, the next caller gets the key at
// once. If the holder's computer dies, freezes or is cut off, the next caller gets the key within Lease, because the
// server ends a connection on which it receives nothing. Before that, the lease of a holder that was frozen or cut off
// has ended by the holder's own clock.
//
// It does not promise that a holder notices the end of its connection before the next holder has the key: the server
// rolls back at once, and the holder notices within socketCheckEvery, or at the latest with the next renewal. The fence
// refuses its late write. Nor does it promise a strict order: MySQL 8 prefers transactions that block many others,
// MariaDB serves in order of arrival. A waiter whose computer died may be granted the lock, and then has it for Lease.
type ForUpdate struct{ *pinned }

// NewForUpdate returns a ForUpdate on db. It keeps a connection of db for each key that is held, or waited for in the
// server's queue: at most o.MaxConns of them, even if db has no limit, and for a moment another one for each fence.
// Close it when all leases have ended.
func NewForUpdate(db *sql.DB, o ConnOptions) *ForUpdate {
	return &ForUpdate{newPinned(db, o, rowLock{db})}
}

type rowLock struct{ db *sql.DB }

func (rowLock) setup(lease int) []string {
	return []string{
		// If there is no row, REPEATABLE READ would lock the gap, which excludes only inserts.
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		// Without autocommit every statement begins a transaction, so BEGIN needs no round trip.
		fmt.Sprintf(
			"SET SESSION autocommit = 0, wait_timeout = %d, innodb_lock_wait_timeout = %d"+unlimited,
			lease, waitLimit,
		),
	}
}

func (r rowLock) acquire(ctx context.Context, s *session, key string, o lock.Options) error {
	err := r.lockRow(ctx, s, key, o)
	if errors.Is(err, sql.ErrNoRows) {
		if err = r.create(ctx, s, key, o); err == nil {
			err = r.lockRow(ctx, s, key, o)
		}
	}
	if err != nil && !s.broken {
		// A deadlock ends the transaction, a timeout ends only the statement.
		s.breakIf(r.release(ctx, s, key))
	}
	if errors.Is(err, sql.ErrNoRows) {
		return errUndone // somebody has deleted the row again
	}
	return refusal(err)
}

func (rowLock) lockRow(ctx context.Context, s *session, key string, o lock.Options) error {
	query := "SELECT 1 FROM lock_rows WHERE name = ? FOR UPDATE"
	if o.TryOnce {
		query += " NOWAIT"
	} else {
		query += waitLabel(key, o.Owner, time.Now())
	}
	return s.request(ctx, o, func(ctx context.Context) error {
		var one int
		return s.conn.QueryRowContext(ctx, query, columnName(key)).Scan(&one)
	})
}

// create inserts the row. If another transaction has inserted and locked it, a waiter waits for that one. If the wait
// ends in a deadlock with another waiter, the acquisition is repeated.
func (rowLock) create(ctx context.Context, s *session, key string, o lock.Options) error {
	err := s.request(ctx, o, func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, "INSERT IGNORE INTO lock_rows (name) VALUES (?)", columnName(key))
		return err
	})
	if err != nil {
		return err
	}
	return s.exec(ctx, "COMMIT")
}

// drawFence issues the fence on another connection of the pool.
func (r rowLock) drawFence(
	ctx context.Context, s *session, key string, o lock.Options,
) (fence lock.Fence, sent time.Time, err error) {
	conn, err := connect(ctx, r.db)
	if err != nil {
		return 0, sent, err
	}
	late, cancel := withGrace(ctx)
	defer cancel()
	fence, err = drawFenceAs(late, conn, columnName(key), ownerColumn(o.Owner), s.id)
	giveBack(conn, err)
	if err != nil {
		return 0, sent, err
	}
	sent = time.Now()
	return fence, sent, s.exec(ctx, "UPDATE lock_rows SET thread = ? WHERE name = ?", s.id, columnName(key))
}

// holds reads what drawFence has written: only the transaction that holds the lock sees it.
func (rowLock) holds(ctx context.Context, s *session, key string) (has bool, err error) {
	const query = "SELECT COUNT(*) FROM lock_rows WHERE name = ? AND thread = CONNECTION_ID()"
	err = s.conn.QueryRowContext(ctx, query, columnName(key)).Scan(&has)
	return has, err
}

func (r rowLock) release(ctx context.Context, s *session, _ string) error {
	return s.exec(ctx, "ROLLBACK")
}
