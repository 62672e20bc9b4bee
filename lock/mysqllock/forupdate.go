package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

// ForUpdate is a row lock: SELECT ... FOR UPDATE of a row in a table of its own, in a transaction that stays open for as long
// as the lease, and that commits nothing.
//
// It is not the stock's row. Whoever locks that one here and sells on another connection waits for himself until
// innodb_lock_wait_timeout.
//
// Algorithm: select the row; if there is none yet, insert it, commit, and select again. The fence is drawn on another
// connection, which commits at once: drawn in the transaction that holds, it would be rolled back with it when the connection
// breaks, and the next holder would draw the same. Then the holder writes its name into the row, for [ForUpdate.Inspect], which also tells
// whether the first connection, and so the lock, has lived until the fence was drawn. Release is ROLLBACK, which takes the name out. Waiters stand in the server's queue, one connection for each key of a
// process; one that gives up takes its question back by KILL QUERY, because the server does not see that the client has gone.
//
// Round trips: 4 uncontended (lock, fence, name, release), and a ping every second. The first use of a key costs 3 more, a
// connection 3 when it is opened, and a wait 1 if it is longer than those before. A try (lock.NoWait) that fails costs 2.
// Waiting costs none, giving up 4.
//
// Room: a key that is held keeps a connection, and MaxConns bounds them. At most half of them wait in the server's
// queue; further waiters poll, 2 round trips every 10 to 100 ms, and give the connection back in between, so that
// keys which somebody does not let go of leave room for others. Where all are held, a try fails with
// lock.ErrNoCapacity, and a wait gets the next one that is free.
//
// Promises: exclusion while no lease is lost; a fence; a holder whose process ended is followed at once, one whose computer
// died, froze or was cut off within Lease, because the server ends a connection on which it hears nothing. A holder that was
// frozen or cut off is told by its own clock before that.
//
// Does not promise: to tell a holder of the end of his connection before the next one is let in. The server rolls back in the
// instant in which it sees the end; the holder sees it when it has come to him, mostly within peekEvery, at the latest with the
// next ping. The fence refuses his write. Nor strict order: MySQL 8 prefers transactions that block many, MariaDB serves who
// came first; nor that a waiter whose computer died is passed over before the time that a holder is given.
type ForUpdate struct{ *pinned }

// NewForUpdate makes a ForUpdate on db, which needs one connection more than o.MaxConns. Close it when no lease is held any more.
func NewForUpdate(db *sql.DB, o ConnOptions) *ForUpdate {
	return &ForUpdate{newPinned(db, o, rowLock{db})}
}

// Bounds of innodb_lock_wait_timeout, in seconds.
const (
	leastPatience = 1
	mostPatience  = 1024
)

// A rowLock is the way of ForUpdate.
type rowLock struct{ db *sql.DB }

func (rowLock) setup(lease int) []string {
	return []string{
		// A row that is missing must not be answered with a lock on the gap, which excludes nobody but those who insert.
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		// Every statement begins a transaction, which saves the BEGIN.
		fmt.Sprintf("SET SESSION autocommit = 0, wait_timeout = %d, innodb_lock_wait_timeout = %d", lease, leastPatience),
	}
}

func (r rowLock) enter(ctx context.Context, s *session, key string, o lock.Options) error {
	const selectRow = "SELECT 1 FROM lock_rows WHERE name = ? FOR UPDATE"
	var err error
	if o.TryOnce {
		err = s.brief(ctx, queryOne(s, selectRow+" NOWAIT", columnName(key)))
	} else if err = r.bear(ctx, s); err == nil {
		err = s.wait(ctx, queryOne(s, selectRow+labelOf(key, o), columnName(key)))
	}
	if errors.Is(err, sql.ErrNoRows) {
		if err = r.create(ctx, s, key, o); err == nil {
			return errAgain
		}
	}
	if err != nil && !s.doubt {
		// After a deadlock the transaction is over, after a timeout only the statement is.
		s.clear(r.leave(ctx, s, key))
	}
	return meaning(err)
}

// queryOne asks for a number.
func queryOne(s *session, query string, args ...any) func(context.Context) error {
	return func(ctx context.Context) error {
		var one int
		return s.conn.QueryRowContext(ctx, query, args...).Scan(&one)
	}
}

// create makes the row. It waits where another has made it and holds it already, and is tried again where two who wait so
// collide.
func (r rowLock) create(ctx context.Context, s *session, key string, o lock.Options) error {
	insert := func(ctx context.Context) error {
		_, err := s.conn.ExecContext(ctx, "INSERT IGNORE INTO lock_rows (name) VALUES (?)", columnName(key))
		return err
	}
	var err error
	if o.TryOnce {
		if err = r.set(ctx, s, leastPatience); err == nil {
			err = s.brief(ctx, insert)
		}
	} else {
		err = s.wait(ctx, insert)
	}
	if err != nil {
		return err
	}
	return s.exec(ctx, "COMMIT")
}

// meaning turns the answers of a lock that was not granted into errBusy and errAgain.
func meaning(err error) error {
	switch mysqlerr.Number(err) {
	case mysqlerr.LockWaitTimeout, mysqlerr.LockNowait:
		return errBusy
	case mysqlerr.Deadlock, mysqlerr.Interrupted, mysqlerr.StatementTime, mysqlerr.ExecutionTime:
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return err
}

// bear makes the server wait for longer than ctx will, but not for much longer: if this process ends without a word, its place
// in the queue ends with that. Powers of two, so that waits that are nearly the same need no round trip.
func (r rowLock) bear(ctx context.Context, s *session) error {
	need := mostPatience
	if deadline, ok := ctx.Deadline(); ok {
		need = leastPatience
		for left := time.Until(deadline); time.Duration(need)*time.Second <= left && need < mostPatience; need *= 2 {
		}
	}
	if s.patience >= need && s.patience <= 4*need {
		return nil
	}
	return r.set(ctx, s, need)
}

func (r rowLock) set(ctx context.Context, s *session, patience int) error {
	err := s.exec(ctx, fmt.Sprintf("SET SESSION innodb_lock_wait_timeout = %d", patience))
	if err == nil {
		s.patience = patience
	}
	return err
}

func (r rowLock) mint(ctx context.Context, s *session, key string, o lock.Options) (lock.Fence, time.Time, error) {
	fence, err := r.draw(ctx, key)
	heard := time.Now()
	if err == nil {
		err = s.exec(ctx, "UPDATE lock_rows SET who = ?, fence = ?, thread = ? WHERE name = ?", shown(o.Owner), uint64(fence), s.id, columnName(key))
	}
	return fence, heard, err
}

func (r rowLock) draw(ctx context.Context, key string) (lock.Fence, error) {
	conn, err := connect(ctx, r.db)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	late, cancel := linger(ctx)
	defer cancel()
	return mint(late, conn, columnName(key))
}

func (r rowLock) leave(ctx context.Context, s *session, _ string) error {
	return s.exec(ctx, "ROLLBACK")
}

func (rowLock) forget(ctx context.Context, db *sql.DB, age time.Duration) error {
	return errors.Join(forgetRows(ctx, db, age), fences.forget(ctx, db, age))
}

// look reads what is not committed: the name that the holder has written, which ends with its transaction.
func (rowLock) look(ctx context.Context, conn *sql.Conn, key string) (seen sight, err error) {
	err = uncommitted(ctx, conn, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT thread, who, fence, "+microseconds+" FROM lock_rows WHERE name = ? AND thread <> 0", columnName(key)).
			Scan(&seen.thread, &seen.who, &seen.fence, &seen.now)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return seen, err
}

func (rowLock) held(ctx context.Context, conn *sql.Conn) (names []string, err error) {
	err = uncommitted(ctx, conn, func(tx *sql.Tx) (err error) {
		names, err = texts(ctx, tx, "SELECT name FROM lock_rows WHERE thread <> 0")
		return err
	})
	return names, err
}

// uncommitted reads what others have written and not committed. It waits for none of them.
func uncommitted(ctx context.Context, conn *sql.Conn, read func(tx *sql.Tx) error) error {
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	err = read(tx)
	return errors.Join(err, tx.Rollback())
}
