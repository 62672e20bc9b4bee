package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
	"example.com/stock/repo/gate"
	"example.com/stock/service"
)

// MySQL keeps stock and orders in MySQL or MariaDB, in the tables of migrations/. The deduction and its order are one
// transaction. It is safe for concurrent use.
//
// Round trips: Read 1; Write, Swap, Deduct and Batch, for any number of sales, 2 (see mysql_sale.go); a sale in
// Transact 5 (BEGIN, SELECT ... FOR UPDATE, UPDATE, INSERT, COMMIT). A refused Write or Swap takes one more, to find
// the reason.
type MySQL struct {
	db    *gorm.DB
	gates Gates
	sales *MySQL // that CanWrite is about; nil: itself
	answerCounter
}

// Gates are the bounded queues in front of a MySQL. A nil gate does not bound anything.
type Gates struct {
	// All is in front of all operations. It should admit one less than the pool has connections: Transact needs one to
	// take waiters out of the server's queue.
	All *gate.Gate
	// Transactions is in front of Transact, which waits here first, for as long as its ctx lets it. A transaction waits
	// for the row on a connection of its own, and then holds the row for as long as its caller thinks: without a bound
	// the waiters for one row take every connection. Its Limits.PerKey is how many transactions of this process wait at
	// the server for one row, or hold it; with two the next one is ready there.
	Transactions *gate.Gate
}

// NewMySQL returns a MySQL that uses db, which [OpenMySQL] opened.
func NewMySQL(db *gorm.DB) *MySQL { return &MySQL{db: db} }

// Behind puts bounded queues in front of every operation. An operation that g refuses, or does not admit within half of
// its time, fails with lock.ErrOverloaded, and nothing was done. The other half of the time is left for MySQL.
// Operations that may wait for the same row, of a SKU or of a segment, share a queue; reads of a SKU have one of their
// own. Behind returns m.
func (m *MySQL) Behind(g Gates) *MySQL {
	m.gates = g
	return m
}

// reading returns the gate's key for operations that lock nothing. They do not wait for writes, nor writes for them.
func reading(sku service.SKU) string { return "read " + string(sku) }

// writing returns the gate's key for operations that may wait for the row of a SKU, or of a segment.
func writing(sku service.SKU, segment int) string {
	if segment == 0 {
		return string(sku)
	}
	return string(sku) + "#" + strconv.Itoa(segment)
}

// enter waits until the gate of all operations admits one.
func (m *MySQL) enter(ctx context.Context, doing, key string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ctxEnded(ctx, doing)
	}
	return enter(ctx, m.gates.All, doing, key)
}

// errChanged reports that an UPDATE matched nothing, and that the row, read afterwards, shows no reason: the stock was
// set in between. The transaction is run again, as a whole: within this one every read would return the same snapshot.
var errChanged = fmt.Errorf("stock keeps changing: row %w", lock.ErrHeld)

// A statement is SQL and its parameters. From the lock of a row to COMMIT all other sales of it wait. There statements
// are written out, because gorm needs 40 µs to make them from maps and structs, and 200 allocations.
type statement struct {
	text strings.Builder
	args []any
}

func (s *statement) add(text string, args ...any) {
	s.text.WriteString(text)
	s.args = append(s.args, args...)
}

// settledIfTaken turns the error of an INSERT whose order id is taken into service.ErrSettled, and that of one whose
// idempotency key is taken into service.ErrKeyTaken. Where it came too late
// for [idUntil] it is errChanged: the next attempt sees that before it writes.
func settledIfTaken(err error) error {
	switch mysqlerr.Number(err) {
	case mysqlerr.DupEntry:
		// MariaDB names the index alone, MySQL 8 puts the table before it. A key and an id have no quotation marks.
		if strings.HasSuffix(err.Error(), "orders_idempotency_key'") {
			return fmt.Errorf("%w: %w", service.ErrKeyTaken, err)
		}
		return fmt.Errorf("%w: %w", service.ErrSettled, err)
	case mysqlerr.BadNull:
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return err
}

const (

	// rollbackTimeout bounds a ROLLBACK, which may be sent after the caller's ctx has ended. If it fails the connection
	// is dropped.
	rollbackTimeout = time.Second
)

// repeat makes attempts until one ends in another way than by a deadlock or the like.
func (m *MySQL) repeat(ctx context.Context, do func() error) error {
	for attempt := 1; ; attempt++ {
		err := do()
		m.countAnswer(err)
		again := deadlocked(err) || errors.Is(err, errChanged) || errors.Is(err, errStaleConn)
		if !again || attempt == attempts || ctx.Err() != nil {
			return err
		}
		if lock.Sleep(ctx, rand.N(time.Millisecond<<attempt)) != nil {
			return err
		}
	}
}

// errStaleConn reports that the server had closed the pooled connection. The driver checks a connection before it uses
// it, so this is rare.
var errStaleConn = errors.New("connection was closed while idle")

// onConnection calls do with a connection of the pool.
func (m *MySQL) onConnection(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	if ctx.Err() != nil {
		return ctxEnded(ctx, doing)
	}
	began := false
	err := m.db.WithContext(ctx).Connection(func(tx *gorm.DB) error {
		began = true
		tx = tx.Session(&gorm.Session{NewDB: true})
		err := do(tx)
		if mysqlerr.Of(err).ReadOnly() {
			discard(tx)
		}
		return err
	})
	if !began {
		err = m.readFault(ctx, doing, err)
	}
	return err
}

// stale marks the error of the first packet of a transaction, if it says that the connection broke.
func stale(err error) error {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) {
		return errors.Join(errStaleConn, err)
	}
	return err
}

// finish runs what is left of a transaction: do, and then the statements that it returns, with COMMIT.
func finish(ctx context.Context, tx *gorm.DB, doing string, do func() (*statement, error)) error {
	returned := false
	defer func() {
		if !returned {
			discard(tx) // do panicked: a caller may recover, and go on with the pool
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
		return waitEnded(ctx, doing)
	}
	return commit(ctx, tx, doing, last)
}

// send executes a statement on the connection of tx. gorm's Exec copies the text character by character and runs its
// callbacks. That takes little, but while the row is locked all others wait for it. BenchmarkPessimistic compares with
// database/sql.
func send(tx *gorm.DB, text string, args ...any) (rows int64, err error) {
	done, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, text, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// commit sends COMMIT, behind last in the same packet.
func commit(ctx context.Context, tx *gorm.DB, doing string, last *statement) error {
	behind := last.text.Len() > 0
	if behind {
		last.add("; ")
	}
	last.add("COMMIT")
	_, err := send(tx, last.text.String(), last.args...)
	if err == nil {
		return nil
	}
	alive := rollback(tx)
	meaning := mysqlerr.Of(err)
	switch {
	case meaning.Outcome == mysqlerr.OfStatement && behind:
		// It is about one of the statements before COMMIT: the server stops at the first that fails.
		return explain(ctx, doing, settledIfTaken(err))
	// If there was no answer to COMMIT and the connection still works, COMMIT never left. If the connection is broken,
	// the reply may have been lost. If COMMIT was answered with an error, it proves nothing that ROLLBACK works: there
	// may be nothing left to roll back.
	case meaning.Number == 0 && alive || meaning.Outcome == mysqlerr.NotCommitted:
		return mysqlFault(ctx, doing, err)
	}
	return outcomeUnknown(doing, err)
}

// rollback takes a round trip, and reports whether the server answered. If not, the connection is dropped, and the
// server rolls back when it notices.
func rollback(tx *gorm.DB) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tx.Statement.Context), rollbackTimeout)
	defer cancel()
	if err := tx.WithContext(ctx).Exec("ROLLBACK").Error; err != nil {
		discard(tx)
		return false
	}
	return true
}

func discard(tx *gorm.DB) {
	if conn, ok := tx.Statement.ConnPool.(*sql.Conn); ok {
		drop(conn)
	}
}

// drop keeps conn from going back to the pool. Its next user would go on in our transaction, or hold our lock.
func drop(conn *sql.Conn) { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }

// fault reports whether err is a fault of the server, and not one of our own refusals.
func fault(err error) bool {
	switch {
	case err == nil, errors.Is(err, errChanged), errors.Is(err, errNothing), errors.Is(err, service.ErrConflict),
		errors.Is(err, service.ErrUnknownSKU), errors.Is(err, service.ErrStockReset),
		errors.Is(err, service.ErrGuarded),
		errors.Is(err, service.ErrStaleFence), errors.Is(err, service.ErrSoldOut), errors.Is(err, service.ErrSettled),
		errors.Is(err, service.ErrKeyTaken), errors.Is(err, service.ErrPrecondition):
		return false
	}
	return true
}

// explain returns refusals as they are, and the meaning of faults.
func explain(ctx context.Context, doing string, err error) error {
	if !fault(err) {
		return err
	}
	return mysqlFault(ctx, doing, err)
}

// unreachable reports whether err is about the connection.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF)
}

// ofOneOrder reports whether err is what the server says of a single row: a taken id, or a text that its column cannot
// hold. All else would be the same for every order, or is no answer.
func ofOneOrder(err error) bool {
	n := mysqlerr.Number(err)
	return n != 0 && !errors.Is(err, lock.ErrDown) && !errors.Is(err, lock.ErrHeld) &&
		!errors.Is(err, service.ErrOutcomeUnknown)
}

// deadlocked reports whether InnoDB has rolled the transaction back for a reason that does not last: a second try may
// succeed.
func deadlocked(err error) bool {
	n := mysqlerr.Number(err)
	return n == mysqlerr.Deadlock || n == mysqlerr.Checkread
}

// readFault is [explain] for a statement that reads, or that was not sent because there was no connection. If ctx ended
// while the pool had no free connection, that is our load and says nothing about the server. It happens only to a pool
// without a gate before it, or to one that others share.
func (m *MySQL) readFault(ctx context.Context, doing string, err error) error {
	if mysqlerr.Number(err) == 0 && errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		if pool, bad := m.db.DB(); bad == nil {
			if s := pool.Stats(); s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections {
				return fmt.Errorf("%s: all %d connections are in use: %w", doing, s.InUse, lock.ErrOverloaded)
			}
		}
	}
	return explain(ctx, doing, err)
}

// mysqlFault returns the error for a failed statement of a transaction that was not committed. Nothing was written: the
// server rolls back what it was not told to commit, also when the connection dies.
func mysqlFault(ctx context.Context, doing string, err error) error {
	meaning := mysqlerr.Of(err)
	n := meaning.Number
	switch {
	case err == nil:
		return nil
	case n == 0 && ctx.Err() != nil:
		return ctxEnded(ctx, doing)
	case n == 0:
		// Refused, reset, closed by the server, no route: errors of the driver, and none of them after COMMIT.
		return lock.Down(doing, err)
	case n == mysqlerr.LockWaitTimeout, n == mysqlerr.LockNowait, deadlocked(err):
		return fmt.Errorf("%s: row %w: %w", doing, lock.ErrHeld, err)
	}
	if meaning.Reason != "" {
		down := &lock.DownError{Server: "mysql", Reason: meaning.Reason, Full: meaning.Full}
		return fmt.Errorf("%s: %w: %w", doing, down, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// A stockRow is a row of stock. It is written by map or in full, never by Updates(stockRow{...}): that leaves zero
// values out, so stock sold down to 0 would stay as it was.
type stockRow struct {
	SKU      string `gorm:"column:sku;primaryKey"`
	Quantity int64  `gorm:"column:quantity"`
	Initial  int64  `gorm:"column:initial"`
	Sold     int64  `gorm:"column:sold"`
	Version  uint64 `gorm:"column:version"`
	Epoch    uint64 `gorm:"column:epoch"`
	Fence    uint64 `gorm:"column:fence"`
	Guard    string `gorm:"column:guard"`
}

func (r stockRow) stock() service.Stock {
	return service.Stock{
		SKU: service.SKU(r.SKU), Quantity: r.Quantity, Initial: r.Initial, Sold: r.Sold,
		Version: r.Version, Epoch: r.Epoch, Fence: r.Fence, Guard: r.Guard,
	}
}

// errNothing reports that no order of a batch can be written. The transaction is rolled back, and its results stand.
var errNothing = errors.New("nothing to write")
