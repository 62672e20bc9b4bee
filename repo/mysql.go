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
	"gorm.io/gorm/clause"

	"example.com/stock/gate"
	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
	"example.com/stock/service"
)

// MySQL keeps stock and orders in MySQL or MariaDB, in the tables of migrations/. The deduction and its order are one
// transaction. It is safe for concurrent use.
//
// Round trips: Read 1; Write, Swap, Deduct and Batch, for any number of sales, 2 (see mysql_sale.go); a sale in Transact
// 5 (BEGIN, SELECT ... FOR UPDATE, UPDATE, INSERT, COMMIT). A refused Write or Swap takes 3: one to find the reason.
type MySQL struct {
	db    *gorm.DB
	gates Gates
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

// Read is one round trip, two while the stock is in segments.
func (m *MySQL) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "read stock"
	leave, err := m.enter(ctx, doing, reading(sku))
	if err != nil {
		return service.Stock{}, err
	}
	defer leave()
	return m.read(ctx, doing, sku)
}

func (m *MySQL) read(ctx context.Context, doing string, sku service.SKU) (service.Stock, error) {
	row, err := selectRow(m.db.WithContext(ctx), sku, unlocked)
	if err != nil {
		err = m.readFault(ctx, doing, err)
		m.countAnswer(err)
		return service.Stock{}, err
	}
	m.countAnswer(nil)
	if row.segmented() {
		all, err := m.segments(ctx, doing, sku)
		return all.Stock, err
	}
	return row.stock(), nil
}

// Write is two round trips.
func (m *MySQL) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return m.write(ctx, o, blind)
}

// Swap is two round trips.
func (m *MySQL) Swap(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return m.write(ctx, o, swapping)
}

func (m *MySQL) write(ctx context.Context, o service.Order, k kind) error {
	const doing = "write order"
	leave, err := m.enter(ctx, doing, writing(o.SKU, o.Segment))
	if err != nil {
		return err
	}
	defer leave()
	return m.inTwo(ctx, doing, func(tx *gorm.DB) (*statement, error) {
		sold, err := sell(tx, o, k, begin)
		switch {
		case err != nil:
			return nil, err
		case !sold:
			return nil, saleRefusal(tx, o, k)
		}
		return inserting(o), nil
	})
}

// Deduct is two round trips, also if it is refused. An o.Epoch of 0 stands for the current epoch.
//
// It is a Batch of one order. A conditional UPDATE would do for the deduction alone, but an order also says what it
// read, which version that was, and in which epoch.
func (m *MySQL) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	o.Remaining = 0
	if err := checkOrder(o); err != nil {
		return o, err
	}
	orders := []service.Order{o}
	if err := checkBatch(orders); err != nil {
		return o, err
	}
	const doing = "deduct"
	leave, err := m.enter(ctx, doing, writing(o.SKU, 0))
	if err != nil {
		return o, err
	}
	defer leave()
	results, err := m.batch(ctx, doing, 0, orders)
	switch {
	case err != nil:
		return o, err
	case results[0].Err != nil:
		return o, results[0].Err
	}
	return results[0].Order, nil
}

// errChanged reports that an UPDATE matched nothing, and that the row, read afterwards, shows no reason: the stock was
// set in between. The transaction is run again, as a whole: within this one every read would return the same snapshot.
var errChanged = fmt.Errorf("stock keeps changing: row %w", lock.ErrHeld)

// A kind of write says which condition it has besides epoch, guard and fence.
type kind int

const (
	blind    kind = iota // none
	swapping             // the stock still has the version that was read
)

// write makes a sale whose quantity the caller has computed from what it read, in two round trips of a transaction that
// has begun.
func write(tx *gorm.DB, o service.Order, k kind) error {
	sold, err := sell(tx, o, k, "")
	switch {
	case err != nil:
		return err
	case !sold:
		return saleRefusal(tx, o, k)
	}
	insert := inserting(o)
	_, err = send(tx, insert.text.String(), insert.args...)
	return settledIfTaken(err)
}

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

// sell is the UPDATE of Write and Swap, behind the statements of first. It reports whether a row met the conditions. The
// row of a segment has its guard from the start.
func sell(tx *gorm.DB, o service.Order, k kind, first string) (bool, error) {
	s := statement{args: make([]any, 0, 13)}
	s.add(first)
	if o.Segment == 0 {
		s.add("UPDATE stock")
	} else {
		s.add("UPDATE stock_segments")
	}
	s.add(" SET sold = sold + ?, version = version + 1, guard = ?", o.Quantity, o.Strategy)
	s.add(", quantity = ?", o.Remaining)
	if o.Fence != 0 {
		s.add(", fence = ?", o.Fence)
	}
	s.add(" WHERE sku = ?", string(o.SKU))
	if o.Segment == 0 {
		s.add(" AND guard IN ('', ?)", o.Strategy)
	} else {
		s.add(" AND segment = ? AND guard = ?", o.Segment, o.Strategy)
	}
	s.add(" AND epoch = ?", o.Epoch)
	if o.Fence != 0 {
		s.add(" AND fence <= ?", o.Fence)
	}
	// Settle relies on this. The INSERT of a Batch has it instead: see [idUntil].
	s.add(" AND ? > UTC_TIMESTAMP(6)", writtenBy(o).UTC())
	if k == swapping {
		s.add(" AND version = ?", o.Version)
	}
	rows, err := send(tx, s.text.String(), s.args...)
	return rows == 1, err
}

const (
	insertOrders = "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left," +
		" strategy, instance, request_id, fence, segment, created_at, idempotency_key, fingerprint) VALUES "
	orderValues = ", ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// inserting is the INSERT of an order. If its id is taken the answer is one for [settledIfTaken].
func inserting(o service.Order) *statement {
	s := &statement{args: make([]any, 0, 15)}
	s.text.Grow(len(insertOrders) + 2 + len(orderValues))
	s.add(insertOrders)
	s.add("(?", o.ID)
	s.addOrder(o)
	return s
}

// addOrder adds the values of an order, but for its id.
func (s *statement) addOrder(o service.Order) {
	s.add(orderValues, string(o.SKU), o.Epoch, o.Version, o.Quantity, o.Read, o.Remaining,
		o.Strategy, o.Instance, o.RequestID, o.Fence, o.Segment, o.CreatedAt.UTC(), orNull(o.Key.ID),
		orNull(o.Key.Fingerprint))
}

// orNull is s, but "" is NULL, of which a unique index takes any number.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// saleRefusal returns the reason why the UPDATE matched no row. It checks the conditions in the same order as
// refuse.lua.
func saleRefusal(tx *gorm.DB, o service.Order, k kind) error {
	row, err := selectRow(tx, o.SKU, unlocked)
	version, fence := row.Version, row.Fence
	if err == nil && o.Segment != 0 {
		var part segmentRow // one that is not there has version 0
		err = tx.Where("sku = ? AND segment = ?", string(o.SKU), o.Segment).Limit(1).Find(&part).Error
		version, fence = part.Version, part.Fence
	}
	switch {
	case err != nil:
		return err
	case row.Epoch != o.Epoch:
		return service.ErrStockReset
	case row.Guard != "" && row.Guard != o.Strategy:
		return &service.GuardError{Guard: row.Guard}
	case o.Segment != 0 && version == 0:
		return service.ErrConflict
	case o.Fence != 0 && o.Fence < fence:
		return staleFence(fence)
	case k == swapping && version != o.Version:
		return service.ErrConflict
	}
	var late bool
	if err := tx.Raw("SELECT ? <= UTC_TIMESTAMP(6)", writtenBy(o).UTC()).Row().Scan(&late); err != nil {
		return err
	}
	if late {
		return service.ErrSettled
	}
	return errChanged
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

// Raise is three round trips, and one more where there was nothing to raise; for a segment it is five. After an
// ErrOutcomeUnknown it may be called again: raising is idempotent.
func (m *MySQL) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	const doing = "raise fence"
	leave, err := m.enter(ctx, doing, writing(sku, 0))
	if err != nil {
		return err
	}
	defer leave()
	return m.transact(ctx, doing, func(tx *gorm.DB) error {
		// The fence of the whole is the largest of its segments, and its guard is that of all segments.
		err := raise(tx, sku, strategy, fence)
		if err == nil && segment != 0 {
			err = raiseSegment(tx, sku, segment, strategy, fence)
		}
		return explain(ctx, doing, err)
	})
}

func raise(tx *gorm.DB, sku service.SKU, strategy string, fence uint64) error {
	done := tx.Model(&stockRow{}).
		Where("sku = ? AND guard IN ('', ?) AND fence < ?", string(sku), strategy, fence).
		Updates(map[string]any{"fence": fence, "guard": strategy})
	if done.Error != nil || done.RowsAffected == 1 {
		return done.Error
	}
	row, err := selectRow(tx, sku, unlocked)
	switch {
	case err != nil:
		return err
	case row.Guard != "" && row.Guard != strategy:
		return &service.GuardError{Guard: row.Guard}
	case row.Fence < fence:
		return errChanged
	}
	return nil
}

// raiseSegment makes the segment if it does not exist. A client that was about to make it finds it made, and the fence
// refuses its later writes.
func raiseSegment(tx *gorm.DB, sku service.SKU, segment int, strategy string, fence uint64) error {
	// Lock the row, so that the epoch stays: the UPDATE before has locked it only if there was something to raise.
	row, err := selectRow(tx, sku, locked)
	switch {
	case err != nil:
		return err
	case row.Guard != strategy:
		return errChanged
	}
	return tx.Clauses(clause.OnConflict{
		DoUpdates: clause.Assignments(map[string]any{"fence": gorm.Expr("GREATEST(fence, ?)", fence)}),
	}).Create(&segmentRow{
		SKU: string(sku), Segment: segment, Version: 1, Epoch: row.Epoch, Fence: fence, Guard: strategy,
	}).Error
}

const (
	// attempts bounds how often a transaction is run that InnoDB ends to resolve a deadlock.
	attempts = 5
	// rollbackTimeout bounds a ROLLBACK, which may be sent after the caller's ctx has ended. If it fails the connection
	// is dropped.
	rollbackTimeout = time.Second
)

// transact runs do between BEGIN and COMMIT, which are two round trips more. After a deadlock it runs do again, with
// jitter.
//
// It is not gorm's Transaction, for two reasons. database/sql sends COMMIT without a ctx, so a server that hangs there
// would hold the caller for ever. And the error of a COMMIT must be told from all others: before COMMIT nothing can
// have been written, after it anything may have been.
func (m *MySQL) transact(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return m.repeat(ctx, func() error { return m.attempt(ctx, doing, do) })
}

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

func (m *MySQL) attempt(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return m.onConnection(ctx, doing, func(tx *gorm.DB) error {
		if err := tx.Exec("START TRANSACTION").Error; err != nil {
			discard(tx)
			return mysqlFault(ctx, doing, stale(err))
		}
		return finish(ctx, tx, doing, func() (*statement, error) { return &statement{}, do(tx) })
	})
}

// onConnection calls do with a connection of the pool.
func (m *MySQL) onConnection(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	if ctx.Err() != nil {
		return ctxEnded(ctx, doing)
	}
	began := false
	err := m.db.WithContext(ctx).Connection(func(tx *gorm.DB) error {
		began = true
		return do(tx.Session(&gorm.Session{NewDB: true}))
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
	if last.text.Len() > 0 {
		last.add("; ")
	}
	last.add("COMMIT")
	_, err := send(tx, last.text.String(), last.args...)
	if err == nil {
		return nil
	}
	alive := rollback(tx)
	n := mysqlerr.Number(err)
	switch {
	case mysqlerr.Refused(err):
		// It is about one of the statements before COMMIT: the server stops at the first that fails.
		return explain(ctx, doing, settledIfTaken(err))
	// If there was no answer to COMMIT and the connection still works, COMMIT never left. If the connection is broken,
	// the reply may have been lost. If COMMIT was answered with an error, it proves nothing that ROLLBACK works: there
	// may be nothing left to roll back.
	case n == 0 && alive || mysqlerr.NotCommitted(n):
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

// How selectRow locks the row.
const (
	unlocked = ""
	locked   = " FOR UPDATE"
)

// selectRow reads a row by its primary key. If there is none it returns service.ErrUnknownSKU.
func selectRow(tx *gorm.DB, sku service.SKU, locking string) (r stockRow, err error) {
	query := tx.Raw("SELECT sku, quantity, initial, sold, version, epoch, fence, guard FROM stock"+
		" WHERE sku = ?"+locking, string(sku))
	if query.Error != nil {
		return r, query.Error
	}
	err = query.Row().Scan(&r.SKU, &r.Quantity, &r.Initial, &r.Sold, &r.Version, &r.Epoch, &r.Fence, &r.Guard)
	if errors.Is(err, sql.ErrNoRows) {
		err = unknownSKU(sku)
	}
	return r, err
}

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
	n := mysqlerr.Number(err)
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
	if reason := mysqlerr.DownReason(n); reason != "" {
		return fmt.Errorf("%s: %w: %w", doing, &lock.DownError{Server: "mysql", Reason: reason}, err)
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

// TableName is called by gorm.
func (stockRow) TableName() string { return "stock" }

func (r stockRow) stock() service.Stock {
	return service.Stock{
		SKU: service.SKU(r.SKU), Quantity: r.Quantity, Initial: r.Initial, Sold: r.Sold,
		Version: r.Version, Epoch: r.Epoch, Fence: r.Fence, Guard: r.Guard,
	}
}

// An orderRow is a row of orders.
type orderRow struct {
	Seq       uint64    `gorm:"column:seq;primaryKey;autoIncrement"`
	ID        string    `gorm:"column:id"`
	SKU       string    `gorm:"column:sku"`
	Epoch     uint64    `gorm:"column:epoch"`
	Version   uint64    `gorm:"column:version"`
	Quantity  int64     `gorm:"column:quantity"`
	Read      int64     `gorm:"column:quantity_read"`
	Remaining int64     `gorm:"column:quantity_left"`
	Strategy  string    `gorm:"column:strategy"`
	Instance  string    `gorm:"column:instance"`
	RequestID string    `gorm:"column:request_id"`
	Fence     uint64    `gorm:"column:fence"`
	Segment   int       `gorm:"column:segment"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName is called by gorm.
func (orderRow) TableName() string { return "orders" }

func (r *orderRow) order() service.Order {
	return service.Order{
		ID: r.ID, SKU: service.SKU(r.SKU), Quantity: r.Quantity,
		Read: r.Read, Remaining: r.Remaining, Version: r.Version, Epoch: r.Epoch,
		Strategy: r.Strategy, Instance: r.Instance, RequestID: r.RequestID,
		Fence: r.Fence, Segment: r.Segment, CreatedAt: r.CreatedAt,
	}
}

// The interfaces of package service that MySQL implements.
var (
	_ service.Store      = (*MySQL)(nil)
	_ service.Deductor   = (*MySQL)(nil)
	_ service.Batcher    = (*MySQL)(nil)
	_ service.Fencer     = (*MySQL)(nil)
	_ service.Transactor = (*MySQL)(nil)
	_ service.Segmenter  = (*MySQL)(nil)
	_ service.Inventory  = (*MySQL)(nil)
	_ service.Settler    = (*MySQL)(nil)
	_ service.Replayer   = (*MySQL)(nil)
	_ service.Origins    = (*MySQL)(nil)
	_ service.Memory     = (*MySQL)(nil)
	_ service.Store      = (*transaction)(nil)
)
