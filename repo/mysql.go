package repo

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/service"
)

// MySQL is a pool of connections to MySQL or MariaDB, with the queues in front of it. It is safe for concurrent use.
type MySQL struct {
	db    *gorm.DB
	queue *Queue
	rows  rowQueues   // of Transact
	sales *MySQL      // the MySQL that WriteProbe probes: this one, or see ProbeOf
	apart atomic.Bool // see Apart
	answerCounter
}

// NewMySQL returns a MySQL that uses db, which [OpenMySQL] opened. Its queue has no limit; see Behind.
func NewMySQL(db *gorm.DB) *MySQL {
	m := &MySQL{db: db, queue: NewQueue(NoLimit, NoLimit)}
	m.sales = m
	return m
}

// Behind puts a bounded queue in front of every operation. If q refuses an operation, or does not admit it within half
// of its time, the operation fails with lock.ErrOverloaded and does nothing; the other half of the time is for MySQL.
// q should admit one operation less than the pool has connections, because Transact needs one more to remove waiters
// from the server's queue. Behind returns m.
func (m *MySQL) Behind(q *Queue) *MySQL {
	m.queue = q
	return m
}

// Apart reports whether each statement of a transaction must be a packet of its own, which adds round trips. It is so
// on a node of a Galera cluster: if such a node aborts a transaction between two statements of a packet, it says
// nothing, and runs the next ones without a transaction. OneWriter notices it. See docs/adr/0013-one-writer.md.
func (m *MySQL) Apart() bool { return m.apart.Load() }

// On returns a handle with ctx for statements outside of a transaction.
func (m *MySQL) On(ctx context.Context) *gorm.DB { return m.db.WithContext(ctx) }

func (m *MySQL) Pool() (*sql.DB, error) { return m.db.DB() }

// Ask enters the queue, calls do with a handle for statements outside of a transaction, and converts its error.
func (m *MySQL) Ask(ctx context.Context, doing string, do func(db *gorm.DB) error) error {
	leave, err := m.queue.Enter(ctx, doing)
	if err != nil {
		return err
	}
	defer leave()
	err = Explain(ctx, doing, do(m.On(ctx)))
	m.CountAnswer(err)
	return err
}

// ErrChanged reports that an UPDATE matched no row although the row, read afterwards, meets its conditions: it was
// changed in between. The whole transaction must run again, because all its reads see the same snapshot.
var ErrChanged = fmt.Errorf("stock keeps changing: row %w", lock.ErrHeld)

// SettledIfTaken converts the error of the INSERT of an order. If the order's id exists, the result matches
// service.ErrSettled; if its idempotency key exists, service.ErrKeyTaken. If it was too late to write the order, the
// result matches ErrChanged, and the next attempt detects this before it writes.
func SettledIfTaken(err error) error {
	switch mysqlerr.Number(err) {
	case mysqlerr.DupEntry:
		// The message of MariaDB names only the index; MySQL 8 puts the table before it. Keys and ids have no quotation
		// marks.
		if strings.HasSuffix(err.Error(), "orders_idempotency_key'") {
			return fmt.Errorf("%w: %w", service.ErrKeyTaken, err)
		}
		return fmt.Errorf("%w: %w", service.ErrSettled, err)
	case mysqlerr.BadNull:
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

// rollbackTimeout limits a ROLLBACK, which may be sent after the caller's ctx has ended. If it fails, the connection
// is closed.
const rollbackTimeout = time.Second

// repeat calls do until it succeeds, fails for a reason that a retry does not remove, or has run Attempts times.
func (m *MySQL) repeat(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		m.CountAnswer(err)
		again := Deadlocked(err) || errors.Is(err, ErrChanged) || errors.Is(err, errStaleConn)
		if !again || attempt == Attempts || ctx.Err() != nil {
			return err
		}
		if driver.Sleep(ctx, rand.N(time.Millisecond<<attempt)) != nil {
			return err
		}
	}
}

// errStaleConn reports that the server had closed the pooled connection. It is rare, because the driver checks a
// connection before it uses it.
var errStaleConn = errors.New("connection was closed while idle")

// OnConnection calls do with a connection of the pool.
func (m *MySQL) OnConnection(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	if ctx.Err() != nil {
		return CtxEnded(ctx, doing)
	}
	began := false
	err := m.db.WithContext(ctx).Connection(func(tx *gorm.DB) error {
		began = true
		tx = tx.Session(&gorm.Session{NewDB: true})
		err := do(tx)
		if mysqlerr.Of(err).ReadOnly() {
			Discard(tx)
		}
		return err
	})
	if !began {
		err = Explain(ctx, doing, err)
	}
	return err
}

// stale adds errStaleConn to the error of a transaction's first packet if the error means that the connection broke.
func stale(err error) error {
	if errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) {
		return errors.Join(errStaleConn, err)
	}
	return err
}

// finish completes a transaction that has begun: it calls do, and sends the statements that do returns with COMMIT.
func (m *MySQL) finish(ctx context.Context, tx *gorm.DB, doing string, do func() (*Statement, error)) error {
	returned := false
	defer func() {
		if !returned {
			Discard(tx) // do panicked: a caller may recover and use the pool again
		}
	}()
	last, err := do()
	returned = true
	if err != nil {
		rollback(tx)
		return err
	}
	if ctx.Err() != nil {
		rollback(tx)
		return WaitEnded(ctx, doing)
	}
	if m.Apart() && last.Text.Len() > 0 {
		err := last.Apart(func(text string, args []any) error {
			_, err := Send(tx, text, args...)
			return err
		})
		if err != nil {
			rollback(tx)
			return Explain(ctx, doing, SettledIfTaken(err))
		}
		last = &Statement{}
	}
	return commit(ctx, tx, doing, last)
}

// commit sends last and COMMIT in one packet.
func commit(ctx context.Context, tx *gorm.DB, doing string, last *Statement) error {
	behind := last.Text.Len() > 0
	if behind {
		last.Add("; ")
	}
	last.Add("COMMIT")
	_, err := Send(tx, last.Text.String(), last.Args...)
	if err == nil {
		return nil
	}
	alive := rollback(tx)
	meaning := mysqlerr.Of(err)
	switch {
	case meaning.Outcome == mysqlerr.OfStatement && behind:
		// A statement before COMMIT has failed, so the server does not run the rest of the packet.
		return Explain(ctx, doing, SettledIfTaken(err))
	// If there was no reply and the connection still works, COMMIT was never sent. If the connection is broken, the
	// reply may have been lost. After an error reply to COMMIT, a successful ROLLBACK proves nothing, because the
	// transaction may already have ended.
	case meaning.Number == 0 && alive || meaning.Outcome == mysqlerr.NotCommitted:
		return MySQLFault(ctx, doing, err)
	}
	return OutcomeUnknown(doing, err)
}

// rollback takes one round trip, and reports whether the server answered. If the server did not answer, rollback closes
// the connection, and the server rolls back when it notices the end of the connection.
func rollback(tx *gorm.DB) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.Statement.Context), rollbackTimeout)
	defer cancel()
	if err := tx.WithContext(ctx).Exec("ROLLBACK").Error; err != nil {
		Discard(tx)
		return false
	}
	return true
}

// Discard closes the connection of tx instead of returning it to the pool.
func Discard(tx *gorm.DB) {
	if conn, ok := tx.Statement.ConnPool.(*sql.Conn); ok {
		drop(conn)
	}
}

// drop closes conn instead of returning it to the pool, where its next user would inherit our transaction or lock.
func drop(conn *sql.Conn) { _ = conn.Raw(func(any) error { return sqldriver.ErrBadConn }) }

// Fault reports whether err is a fault of the server, not a refusal by this service.
func Fault(err error) bool {
	if err == nil {
		return false
	}
	for _, refusal := range []error{
		ErrChanged, ErrNothing, service.ErrInvalid, service.ErrConflict, service.ErrUnknownSKU, service.ErrStockReset,
		service.ErrGuarded, service.ErrStaleFence, service.ErrSoldOut, service.ErrSettled, service.ErrUndecided,
		service.ErrTooOld, service.ErrKeyTaken, service.ErrKeyReused, service.ErrPrecondition,
	} {
		if errors.Is(err, refusal) {
			return false
		}
	}
	return true
}

// Explain returns a refusal unchanged, and converts a fault with [MySQLFault].
func Explain(ctx context.Context, doing string, err error) error {
	if !Fault(err) {
		return err
	}
	return MySQLFault(ctx, doing, err)
}

// unreachable reports whether err is an error of the connection.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF)
}

// OfOneOrder reports whether err is the server's reply about a single row, such as an id that exists or a text that
// its column cannot hold. Then the other orders of a batch may still be written.
func OfOneOrder(err error) bool {
	n := mysqlerr.Number(err)
	return n != 0 && !errors.Is(err, lock.ErrDown) && !errors.Is(err, lock.ErrHeld) &&
		!errors.Is(err, service.ErrOutcomeUnknown)
}

// Deadlocked reports whether InnoDB has rolled the transaction back for a reason that may be gone at the next
// attempt.
func Deadlocked(err error) bool {
	n := mysqlerr.Number(err)
	return n == mysqlerr.Deadlock || n == mysqlerr.Checkread
}

// MySQLFault converts the error of a failed statement before COMMIT. Nothing was written, because the server rolls the
// transaction back, even if the connection breaks.
func MySQLFault(ctx context.Context, doing string, err error) error {
	meaning := mysqlerr.Of(err)
	n := meaning.Number
	switch {
	case err == nil:
		return nil
	case n == 0 && ctx.Err() != nil:
		return CtxEnded(ctx, doing)
	case n == 0:
		// The driver has returned an error of the connection: refused, reset, closed by the server, no route.
		return driver.Down(doing, err)
	case n == mysqlerr.LockWaitTimeout, n == mysqlerr.LockNowait, Deadlocked(err):
		return fmt.Errorf("%s: row %w: %w", doing, lock.ErrHeld, err)
	}
	if meaning.Reason != "" {
		down := &driver.DownError{Server: "mysql", Reason: meaning.Reason, Full: meaning.Full, Denied: meaning.Denied()}
		return fmt.Errorf("%s: %w: %w", doing, down, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// ErrNothing reports that a transaction has nothing to write, for example because every order of its batch is
// refused. The transaction is rolled back, and the results of the batch are still valid.
var ErrNothing = errors.New("nothing to write")
