package repo

import (
	"context"
	"database/sql"
	"errors"

	"gorm.io/gorm"

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
	db *gorm.DB
}

// NewMySQL makes a MySQL on what [OpenMySQL] opened.
func NewMySQL(db *gorm.DB) *MySQL { return &MySQL{db} }

// Read is one round trip, two while the stock is in segments.
func (m *MySQL) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	return m.read(ctx, "read stock", sku)
}

func (m *MySQL) read(ctx context.Context, doing string, sku service.SKU) (service.Stock, error) {
	if ctx.Err() != nil {
		return service.Stock{}, ended(ctx, doing)
	}
	row, err := take(m.db.WithContext(ctx), sku, unlocked)
	if err != nil {
		return service.Stock{}, explain(ctx, doing, err)
	}
	if row.parted() {
		all, err := m.Segments(ctx, sku)
		return all.Stock, err
	}
	return row.stock(), nil
}

// Write is four round trips.
func (m *MySQL) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	const doing = "write order"
	return m.transact(ctx, doing, func(tx *gorm.DB) error { return explain(ctx, doing, write(tx, o, blind)) })
}

// Swap is four round trips.
func (m *MySQL) Swap(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	const doing = "write order"
	return m.transact(ctx, doing, func(tx *gorm.DB) error { return explain(ctx, doing, write(tx, o, swapping)) })
}

// Deduct is five round trips. An o.Epoch of 0 takes part in whatever epoch it is.
func (m *MySQL) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	o.Remaining = 0
	if err := checkOrder(o); err != nil {
		return o, err
	}
	const doing = "deduct"
	done := o
	err := m.transact(ctx, doing, func(tx *gorm.DB) (err error) {
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
func (m *MySQL) Transact(ctx context.Context, do func(ctx context.Context, tx service.Store) error) error {
	left := ""
	err := m.transact(ctx, "sell in transaction", func(tx *gorm.DB) error {
		store := &transaction{tx: tx}
		err := do(ctx, store)
		left = store.left
		if err != nil {
			return err
		}
		return store.broken
	})
	if left != "" {
		m.dismiss(ctx, left) // now that its connection has gone back: it may be the pool's last
	}
	return err
}

// A transaction is the Store inside Transact.
type transaction struct {
	tx *gorm.DB
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
	if lock.IsNoWait(ctx) {
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
	_ service.Stockroom  = (*MySQL)(nil)
	_ service.Store      = (*transaction)(nil)
)
