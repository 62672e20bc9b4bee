// Package mysqllock has three locks on MySQL and MariaDB: a row with a time limit ([Table]), a row lock ([ForUpdate])
// and a named lock ([GetLock]).
//
// Each lock is in one file, from acquire to release: table.go, forupdate.go and getlock.go. Read table.go first. The
// other two live in a connection: pinned.go keeps it, notices its end and tells the holder; session.go is the
// connection. options.go has the options, and inspect.go shows holders and waiters to people, and takes keys away. This
// file has what all of them use: statements with a time limit, fences, names of keys, and errors.
//
// Give the locks their own connection pool, with timeout and interpolateParams=true in its DSN and without
// readTimeout. The character set of its sessions must be utf8mb4: the driver escapes keys and owners for that one, and
// in GBK, for example, a key could become SQL. A server may ignore what charset in the DSN asks for, so set
// character_set_client there. ForUpdate and GetLock keep a connection for as long as a key is held or waited for. In a
// pool shared with the store the waiters would take the connections that the holder needs to write. [Schema]
// returns the statements that create the tables; the service's schema has them (stock migrate up).
//
// All three are locks of one server, the master. A fail-over ends the locks that live in a connection, and may lose the
// row of a Table that was not replicated yet. In a cluster with several masters, a lock on one master does not exclude
// callers on another master.
package mysqllock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
)

const (
	// answerTimeout is the time limit of a statement that does not wait for a lock.
	answerTimeout = 1500 * time.Millisecond
	// gracePeriod is how long a statement that was sent before the end of ctx may take after it.
	gracePeriod = 250 * time.Millisecond
	// maxTries is the largest number of times that a statement is sent. It is sent again if the server undoes it
	// because of a deadlock or a lock wait timeout.
	maxTries = 5
)

// withGrace returns a context for a statement that is sent under ctx. It ends gracePeriod after ctx, or after
// answerTimeout. The reply nearly always arrives within a millisecond, and without the grace period the driver would
// break the connection, so that the outcome would be unknown.
func withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	stop := context.AfterFunc(ctx, func() {
		_ = driver.Sleep(late, gracePeriod)
		cancel()
	})
	return late, func() { stop(); cancel() }
}

// connect takes a connection from db. It returns at once when ctx ends, because nothing has been sent yet. It also
// gives up after answerTimeout, because a server that hangs may accept a connection and never send its greeting. The
// error matches lock.ErrNoCapacity if all connections of the pool were in use.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := db.Conn(bounded)
	if err == nil || bounded.Err() == nil {
		return conn, err
	}
	if s := db.Stats(); s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections {
		return nil, fmt.Errorf("%w: all %d connections of the pool are in use", lock.ErrNoCapacity, s.InUse)
	}
	if ctx.Err() == nil {
		return nil, driver.NewDown("mysql", "no-connection", "limit", answerTimeout.String())
	}
	return nil, err
}

// giveBack returns a connection to the pool after a statement that returned err. It closes one whose server accepts no
// writes: after a fail-over behind a proxy, only a new connection leads to the new master.
func giveBack(conn *sql.Conn, err error) {
	if mysqlerr.Of(err).ReadOnly() {
		_ = conn.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
	_ = conn.Close()
}

// onConnection calls do, which must not wait for a lock, with a connection of the pool. Its errors begin with doing.
func onConnection[T any](
	ctx context.Context, db *sql.DB, doing string, do func(context.Context, *sql.Conn) (T, error),
) (result T, err error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := connect(bounded, db)
	if err != nil {
		return result, fault(ctx, doing, err)
	}
	done, err := do(bounded, conn)
	giveBack(conn, err)
	if err != nil {
		return result, fault(ctx, doing, err)
	}
	return done, nil
}

// A querier is a *sql.DB or a *sql.Conn.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// execute runs a statement that is its own transaction, and repeats it after a collision with another transaction. A
// deadlock undoes the whole transaction. A lock wait that timed out undoes the last statement, which is the only one
// here. Inserts can deadlock, too: if three clients insert a row at once, two wait for the first with shared locks,
// and deadlock if the first is rolled back.
func execute(ctx context.Context, on querier, query string, args ...any) (sql.Result, error) {
	for try := 1; ; try++ {
		result, err := on.ExecContext(ctx, query, args...)
		if !collided(err) || try == maxTries || driver.Sleep(ctx, collisionPause(try)) != nil {
			return result, err
		}
	}
}

func collisionPause(try int) time.Duration { return jitter(5 * time.Millisecond << try) }

// jitter returns a random duration between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// Fences.

const (
	// microseconds is the server's clock as a number. It is UTC, because local time goes back once a year.
	microseconds = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	// nextFence is the fence after the one in the row: the server's clock in microseconds, or the last fence plus
	// driver.FenceRange if that is larger. So fences grow even if the clock is set back or the row is deleted.
	nextFence = "LAST_INSERT_ID(GREATEST(fence + ?, " + microseconds + "))"
)

// drawFence issues the next fence of a key. The caller holds the key, or is about to take it from its holder.
//
// on must be in autocommit mode. In the transaction that holds a row lock the fence would be rolled back when the
// connection breaks, and the next holder would get the same number.
func drawFence(ctx context.Context, on querier, name string) (lock.Fence, error) {
	return draw(ctx, on, "INSERT INTO lock_fences (name, fence) VALUES (?, LAST_INSERT_ID("+microseconds+"))"+
		" ON DUPLICATE KEY UPDATE fence = "+nextFence, name, driver.FenceRange)
}

// drawFenceAs issues a fence like drawFence, and stores for Inspect the owner and the connection that it was issued to.
// The server assigns the columns of a row one after the other, so held gets the new fence.
func drawFenceAs(ctx context.Context, on querier, name, owner string, thread int64) (lock.Fence, error) {
	return draw(ctx, on, "INSERT INTO lock_fences (name, who, thread, fence, held)"+
		" VALUES (?, ?, ?, LAST_INSERT_ID("+microseconds+"), "+microseconds+")"+
		" ON DUPLICATE KEY UPDATE who = ?, thread = ?, fence = "+nextFence+", held = fence",
		name, owner, thread, owner, thread, driver.FenceRange)
}

// draw executes a statement that issues a fence.
func draw(ctx context.Context, on querier, query string, args ...any) (lock.Fence, error) {
	result, err := execute(ctx, on, query, args...)
	if err != nil {
		return 0, err
	}
	return drawnFence(result)
}

// drawnFence returns the fence that a statement passed to LAST_INSERT_ID. It is part of the server's reply.
func drawnFence(result sql.Result) (lock.Fence, error) {
	fence, err := result.LastInsertId()
	if err == nil && fence <= 0 {
		err = fmt.Errorf("fence %d", fence)
	}
	return lock.Fence(fence), err
}

// Names.

const (
	columnBytes    = 255 // size of the name columns, which are binary: no case, no trailing blanks, no character set
	digestPrefix   = "sha256:"
	namedLockChars = 64 // limit of the server
)

// columnName returns the name of key in the tables: the key itself, which people can read, or its digest if it is too
// long. No two keys share a name, because a key that looks like a digest is also replaced by its digest.
func columnName(key string) string {
	if len(key) <= columnBytes && !strings.HasPrefix(key, digestPrefix) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// namedLockName returns the name of the named lock of key. Named locks belong to the whole server, so the name
// includes the database. The server treats names that differ only by case, and perhaps by accents or trailing blanks,
// as equal. So only keys without such characters stay readable. The others become a digest, of 232 bits because of
// the limit of 64 characters.
func namedLockName(database, key string) string {
	name := "stock/" + database + "/" + key
	if len(name) <= namedLockChars && isPlain(database) && isPlain(key) {
		return name
	}
	sum := sha256.Sum256([]byte(database + "\x00" + key))
	return ("stock#" + hex.EncodeToString(sum[:]))[:namedLockChars]
}

func isPlain(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return false
		}
	}
	return s != ""
}

// ownerColumn returns owner in a form that the column accepts: at most 255 characters of UTF-8.
func ownerColumn(owner string) string {
	owner = strings.ToValidUTF8(owner, "?")
	if utf8.RuneCountInString(owner) > 255 {
		owner = string([]rune(owner)[:255])
	}
	return owner
}

// unlimited lifts the session's time limit for statements, which an operator may have set for the whole server: a
// statement that waits for a lock takes as long as its caller waits. It belongs into a SET. MariaDB executes the first
// of these two comments and skips the second; MySQL does the reverse.
const unlimited = "/*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */"

// Errors.

var (
	// errBusy means that another caller has the key. The session is unchanged.
	errBusy = errors.New("held")
	// errUndone means that the server undid or ended the statement for a reason that may not affect the next try.
	errUndone = errors.New("undone by the server")
)

// acquiring returns the prefix of an acquisition's errors.
func acquiring(key string) string { return fmt.Sprintf("acquire lock %q", key) }

// collided reports whether the server undid the statement, which was a transaction of its own, because of a deadlock or
// a lock wait timeout.
func collided(err error) bool {
	n := mysqlerr.Number(err)
	return n == mysqlerr.Deadlock || n == mysqlerr.LockWaitTimeout
}

// interrupted reports whether the server, or an operator, ended the statement because of the time that it took, or
// because of nothing that concerns the lock. A waiter waits on.
func interrupted(err error) bool {
	n := mysqlerr.Number(err)
	return n == mysqlerr.Interrupted || n == mysqlerr.StatementTime || n == mysqlerr.ExecutionTime
}

// refusal returns errBusy or errUndone for an answer that means one of them, and err otherwise.
func refusal(err error) error {
	switch n := mysqlerr.Number(err); {
	case n == mysqlerr.LockWaitTimeout, n == mysqlerr.LockNowait:
		return errBusy
	case n == mysqlerr.Deadlock, interrupted(err):
		return fmt.Errorf("%w: %w", errUndone, err)
	}
	return err
}

// releaseDone reports whether, after a release returned err, nothing is left to release.
func releaseDone(err error) bool {
	return err == nil || errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrTaken)
}

// fault converts the error of a failed statement for a caller that waits under ctx.
func fault(ctx context.Context, doing string, err error) error {
	n := mysqlerr.Number(err)
	switch {
	case errors.Is(err, lock.ErrNoCapacity) && ctx.Err() != nil:
		return errors.Join(fmt.Errorf("%s: %w", doing, err), context.Cause(ctx))
	case errors.Is(err, lock.ErrDown), errors.Is(err, lock.ErrNoCapacity):
		return fmt.Errorf("%s: %w", doing, err)
	case n == 0 && ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx)) // the wait ended; the server may be up
	case n == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		// The time limit of the statement has passed. This must not be reported as the end of the caller's ctx.
		return fmt.Errorf("%s: %w", doing,
			driver.NewDown("mysql", "no-answer", "limit", answerTimeout.String()))
	case n == 0:
		return driver.Down(doing, err)
	}
	meaning := mysqlerr.Of(err)
	if meaning.Reason == "" {
		return fmt.Errorf("%s: %w", doing, err)
	}
	down := &driver.DownError{Server: "mysql", Reason: meaning.Reason, Full: meaning.Full, Denied: meaning.Denied()}
	if n == mysqlerr.NoSuchTable || n == mysqlerr.BadField {
		return fmt.Errorf("%s: %w", doing, &schemaError{down, err})
	}
	return fmt.Errorf("%s: %w: %w", doing, down, err)
}

// serverFault is fault for a statement without a waiting caller. If the statement's context ended, the server did not
// answer.
func serverFault(doing string, err error) error { return fault(context.Background(), doing, err) }
