package repo

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"gorm.io/gorm"

	"example.com/stock/gate"
	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
	"example.com/stock/service"
)

// MySQL keeps stock and orders in MySQL or MariaDB, in the tables of migrations/. The deduction and its order are one transaction. It is safe
// for concurrent use.
//
// Round trips: Read 1; Write and Swap 4 (BEGIN, UPDATE, INSERT, COMMIT); Deduct 5 (one to see what the UPDATE wrote); a sale in Transact 5
// (BEGIN, SELECT ... FOR UPDATE, UPDATE, INSERT, COMMIT). A refusal takes one more, to say why.
type MySQL struct {
	db    *gorm.DB
	gates Gates
	ear
}

// Gates are the bounded queues in front of a MySQL; nil: none.
type Gates struct {
	// All operations pass All. It should admit one less than the pool has connections: Transact takes one to bring
	// waiters out of the server's queue.
	All *gate.Gate
	// Transact waits here first, for as long as its ctx lets it. A transaction waits for the row on a connection of its
	// own, and holds it for as long as its owner thinks: without a budget the waiters for one row take every
	// connection. Its Limits.PerKey is how many of this process stand at one row; two keep the next one ready at the
	// server.
	Transactions *gate.Gate
}

// NewMySQL makes a MySQL on what [OpenMySQL] opened.
func NewMySQL(db *gorm.DB) *MySQL { return &MySQL{db: db} }

// Behind puts bounded queues in front of every operation: what is refused there, or does not get its turn in half of
// its time, fails with lock.ErrOverloaded, and nothing was done. The other half is left for MySQL. Statements that may
// wait for a row take turns with others of the same SKU, or segment, and so do reads. It returns m.
func (m *MySQL) Behind(g Gates) *MySQL {
	m.gates = g
	return m
}

// reading is the key of what locks nothing: it does not wait for those who write, nor they for it.
func reading(sku service.SKU) string { return "read " + string(sku) }

// writing is the key of what may wait for the row of a SKU, or of a segment.
func writing(sku service.SKU, segment int) string {
	if segment == 0 {
		return string(sku)
	}
	return string(sku) + "#" + strconv.Itoa(segment)
}

// enter waits for a turn.
func (m *MySQL) enter(ctx context.Context, doing, key string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, doing)
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
	row, err := take(m.db.WithContext(ctx), sku, unlocked)
	if err != nil {
		err = m.unread(ctx, doing, err)
		m.heard(err)
		return service.Stock{}, err
	}
	m.heard(nil)
	if row.parted() {
		all, err := m.segments(ctx, doing, sku)
		return all.Stock, err
	}
	return row.stock(), nil
}

// Write is four round trips.
func (m *MySQL) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return m.write(ctx, o, blind)
}

// Swap is four round trips.
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
	return m.transact(ctx, doing, func(tx *gorm.DB) error { return explain(ctx, doing, write(tx, o, k)) })
}

// Deduct is five round trips. An o.Epoch of 0 takes part in whatever epoch it is.
func (m *MySQL) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	o.Remaining = 0
	if err := checkOrder(o); err != nil {
		return o, err
	}
	const doing = "deduct"
	leave, err := m.enter(ctx, doing, writing(o.SKU, o.Segment))
	if err != nil {
		return o, err
	}
	defer leave()
	done := o
	err = m.transact(ctx, doing, func(tx *gorm.DB) (err error) {
		done, err = deduct(tx, o)
		return explain(ctx, doing, err)
	})
	if err != nil {
		return o, err
	}
	return done, nil
}

// Transact begins, runs do, and commits. A transaction that InnoDB ends to resolve a deadlock is run again from the start, so do may
// be called more than once; what it did before is undone.
//
// A waiter whose ctx ends leaves the server's queue, too, which takes two round trips on another connection; see dismiss. A wait that reaches
// innodb_lock_wait_timeout (50 s by default) ends with lock.ErrHeld.
//
// Behind gates at most Gates.Transactions' Limits.PerKey of this process wait for the row of about; the others wait for
// them, without a connection. One that tries once finds the row held there, too.
func (m *MySQL) Transact(
	ctx context.Context, about service.SKU, tryOnce bool, do func(ctx context.Context, tx service.Store) error,
) error {
	const doing = "sell in transaction"
	leave, err := m.enterTransaction(ctx, doing, about, tryOnce)
	if err != nil {
		return err
	}
	left := ""
	err = m.transact(ctx, doing, func(tx *gorm.DB) error {
		store := &transaction{tx: tx, tryOnce: tryOnce}
		err := do(ctx, store)
		left = store.left
		if err != nil {
			return err
		}
		return store.broken
	})
	leave()
	if left != "" {
		m.dismiss(ctx, left) // now that its connection has gone back: it may be the pool's last
	}
	return err
}

// enterTransaction waits for a turn in front of the row, and then for one of all. The first is a wait for the row like
// that in the server: its end is ErrHeld, unless it was the budget of all transactions that had no room.
func (m *MySQL) enterTransaction(
	ctx context.Context, doing string, about service.SKU, tryOnce bool,
) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, doing)
	}
	if tryOnce && m.gates.Transactions.Busy(string(about)) {
		return nil, fmt.Errorf("%s: row %w, by another of this process", doing, lock.ErrHeld)
	}
	first, err := m.gates.Transactions.Enter(ctx, gate.Request{Key: string(about), Wait: service.AdmissionOf(ctx).Wait})
	if refused, ok := errors.AsType[*gate.RefusedError](err); ok && refused.KeyBusy {
		return nil, fmt.Errorf("%s: row %w, by another of this process: %w", doing, lock.ErrHeld, context.DeadlineExceeded)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	second, err := enter(service.Begin(ctx), m.gates.All, doing, writing(about, 0))
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// A transaction is the Store inside Transact.
type transaction struct {
	tx      *gorm.DB
	tryOnce bool // do not wait for the row
	// broken is the first fault, which ends the transaction: after a deadlock, say, the server has rolled back, and whatever
	// followed would be written at once and by itself. So nothing follows, even if do swallows the error.
	broken error
	left   string // label of the statement that still waits at the server, for nobody
}

// Read is one round trip and the wait for the row. The lock is on the row of the primary key alone.
func (t *transaction) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "lock stock"
	label := waitLabel()
	locking := locked + " " + label
	if t.tryOnce {
		locking = locked + " NOWAIT"
	}
	var row stockRow
	err := t.do(ctx, doing, func(tx *gorm.DB) (err error) {
		row, err = take(tx, sku, locking)
		if err == nil && row.parted() {
			// Locked: the parts can only be sold from, and this shows how far that has gone.
			err = row.add(tx)
		}
		return err
	})
	if err != nil && mysqlerr.Number(err) == 0 && ctx.Err() != nil {
		t.left = label
		return service.Stock{}, stopped(ctx, doing)
	}
	return row.stock(), err
}

// Write is two round trips.
func (t *transaction) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return t.do(ctx, "write order", func(tx *gorm.DB) error { return write(tx, o, blind) })
}

func (t *transaction) do(ctx context.Context, doing string, statements func(tx *gorm.DB) error) error {
	if t.broken != nil {
		return t.broken
	}
	err := statements(t.tx.WithContext(ctx))
	explained := explain(ctx, doing, err)
	// That an id is taken is an answer, but the UPDATE before it is done: it must not be committed alone.
	if fault(err) || errors.Is(err, service.ErrSettled) {
		t.broken = explained
	}
	return explained
}

// How take locks the row.
const (
	unlocked = ""
	locked   = " FOR UPDATE"
)

// take reads a row by its primary key. What is not there is service.ErrUnknownSKU.
func take(tx *gorm.DB, sku service.SKU, locking string) (r stockRow, err error) {
	query := tx.Raw("SELECT sku, quantity, initial, sold, version, epoch, fence, guard FROM stock WHERE sku = ?"+locking, string(sku))
	if query.Error != nil {
		return r, query.Error
	}
	err = query.Row().Scan(&r.SKU, &r.Quantity, &r.Initial, &r.Sold, &r.Version, &r.Epoch, &r.Fence, &r.Guard)
	if errors.Is(err, sql.ErrNoRows) {
		err = unknownSKU(sku)
	}
	return r, err
}

// fault tells a fault of the server's from an answer of ours.
func fault(err error) bool {
	switch {
	case err == nil, errors.Is(err, errChanged), errors.Is(err, service.ErrConflict),
		errors.Is(err, service.ErrUnknownSKU), errors.Is(err, service.ErrStockReset), errors.Is(err, service.ErrGuarded),
		errors.Is(err, service.ErrStaleFence), errors.Is(err, service.ErrSoldOut), errors.Is(err, service.ErrSettled),
		errors.Is(err, service.ErrPrecondition):
		return false
	}
	return true
}

// explain leaves refusals as they are.
func explain(ctx context.Context, doing string, err error) error {
	if !fault(err) {
		return err
	}
	return mysqlFault(ctx, doing, err)
}

// The interfaces of package service that MySQL has.
var (
	_ service.Store      = (*MySQL)(nil)
	_ service.Deductor   = (*MySQL)(nil)
	_ service.Segmenter  = (*MySQL)(nil)
	_ service.Transactor = (*MySQL)(nil)
	_ service.Inventory  = (*MySQL)(nil)
	_ service.Store      = (*transaction)(nil)
)
