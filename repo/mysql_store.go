package repo

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/service"
)

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

// sell is the UPDATE of Write and Swap, behind the statements of first. It reports whether a row met the conditions.
// The row of a segment has its guard from the start.
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

// CanWrite is [MySQLLedger.CanWrite] for what a sale without a ledger writes.
func (m *MySQL) CanWrite(ctx context.Context) error {
	return m.canWrite(ctx, func(s *statement, id string) {
		s.add(insertOrders+"(?", id)
		s.addOrder(service.Order{RequestID: strings.Repeat("x", 255), CreatedAt: time.Unix(1, 0)})
	})
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

// TableName is called by gorm.
func (stockRow) TableName() string { return "stock" }

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

// transact runs do between BEGIN and COMMIT, which are two round trips more. After a deadlock it runs do again, with
// jitter.
//
// It is not gorm's Transaction, for two reasons. database/sql sends COMMIT without a ctx, so a server that hangs there
// would hold the caller for ever. And the error of a COMMIT must be told from all others: before COMMIT nothing can
// have been written, after it anything may have been.
func (m *MySQL) transact(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return m.repeat(ctx, func() error { return m.attempt(ctx, doing, do) })
}

func (m *MySQL) attempt(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return m.onConnection(ctx, doing, func(tx *gorm.DB) error {
		if err := tx.Exec("START TRANSACTION").Error; err != nil {
			discard(tx)
			return mysqlFault(ctx, doing, stale(err))
		}
		return finish(ctx, tx, doing, func() (*statement, error) { return &statement{}, do(tx) })
	})
}
