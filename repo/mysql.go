package repo

import (
	"context"
	"errors"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/lock"
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
	row, err := take(m.db.WithContext(ctx), sku)
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
// A waiter whose ctx ends leaves, but the server notices only when it would give it the row, or after innodb_lock_wait_timeout. Until
// then it costs the server a connection. A wait that reaches innodb_lock_wait_timeout (50 s by default) ends with lock.ErrHeld.
func (m *MySQL) Transact(ctx context.Context, do func(ctx context.Context, tx service.Store) error) error {
	return m.transact(ctx, "sell in transaction", func(tx *gorm.DB) error {
		store := &transaction{tx: tx}
		if err := do(ctx, store); err != nil {
			return err
		}
		return store.broken
	})
}

// A transaction is the Store inside Transact.
type transaction struct {
	tx *gorm.DB
	// broken is the first fault, which ends the transaction: after a deadlock, say, the server has rolled back, and whatever
	// followed would be written at once and by itself. So nothing follows, even if do swallows the error.
	broken error
}

// Read is one round trip and the wait for the row. The lock is on the row of the primary key alone.
func (t *transaction) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "lock stock"
	locking := clause.Locking{Strength: clause.LockingStrengthUpdate}
	if lock.IsNoWait(ctx) {
		locking.Options = clause.LockingOptionsNoWait
	}
	var row stockRow
	err := t.do(ctx, doing, func(tx *gorm.DB) (err error) {
		row, err = take(tx.Clauses(locking), sku)
		if err == nil && row.parted() {
			// Locked: the parts can only be sold from, and this shows how far that has gone.
			err = row.add(tx)
		}
		return err
	})
	if err != nil && mysqlNumber(err) == 0 && ctx.Err() != nil {
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
	if fault(err) {
		t.broken = explained
	}
	return explained
}

// take reads a row by its primary key. What is not there is service.ErrUnknownSKU.
func take(tx *gorm.DB, sku service.SKU) (stockRow, error) {
	var row stockRow
	err := tx.Where("sku = ?", string(sku)).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		err = unknownSKU(sku)
	}
	return row, err
}

// fault tells a fault of the server's from an answer of ours.
func fault(err error) bool {
	switch {
	case err == nil, errors.Is(err, errChanged), errors.Is(err, service.ErrConflict),
		errors.Is(err, service.ErrUnknownSKU), errors.Is(err, service.ErrStockReset), errors.Is(err, service.ErrGuarded),
		errors.Is(err, service.ErrStaleFence), errors.Is(err, service.ErrSoldOut):
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
