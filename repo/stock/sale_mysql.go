package stock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"time"

	"gorm.io/gorm"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Read takes one round trip, or two while the stock is in segments.
func (m *MySQL) Read(ctx context.Context, sku service.SKU) (stock service.Stock, err error) {
	err = m.Ask(ctx, "read stock", func(db *gorm.DB) error {
		row, err := selectRow(db, sku, unlocked)
		stock = row.stock()
		if err == nil && row.segmented() {
			var all service.Segments
			all, err = selectSegments(db, sku)
			stock = all.Stock
		}
		return err
	})
	return stock, err
}

// Swap takes two round trips.
func (m *MySQL) Swap(ctx context.Context, o service.Order) error { return m.write(ctx, o, sameVersion) }

func (m *MySQL) write(ctx context.Context, o service.Order, version check) error {
	return m.InTwoPackets(ctx, "write order", func(tx *gorm.DB) (*repo.Statement, error) {
		return inserting(o), sell(tx, o, version, repo.Begin)
	})
}

// Deduct takes two round trips, even if it is refused. An o.Epoch of 0 stands for the current epoch.
//
// It is a Batch of one order. A conditional UPDATE could deduct, but it would not return the quantity, version and
// epoch before the sale, which the order records.
func (m *MySQL) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	results, err := m.batch(ctx, "deduct", []service.Order{o})
	if err != nil {
		return o, err
	}
	return results[0].Order, results[0].Err
}

// sell sends first and the UPDATE of Write and Swap, and returns the reason if no row meets the conditions. The row of
// a segment always has a guard.
func sell(tx *gorm.DB, o service.Order, version check, first string) error {
	s := repo.Statement{Args: make([]any, 0, 14)}
	s.Add(first)
	if o.Segment == 0 {
		s.Add("UPDATE stock")
	} else {
		s.Add("UPDATE stock_segments")
	}
	s.Add(" SET sold = sold + ?, version = version + 1, guard = ?", o.Quantity, o.Strategy)
	s.Add(", quantity = ?", o.Remaining)
	keepFence(&s, o.Fence)
	s.Add(" WHERE sku = ?", string(o.SKU))
	if o.Segment == 0 {
		s.Add(" AND guard IN ('', ?)", o.Strategy)
	} else {
		s.Add(" AND segment = ? AND guard = ?", o.Segment, o.Strategy)
	}
	s.Add(" AND epoch = ?", o.Epoch)
	compareFence(&s, o.Fence)
	// Settle relies on this condition. In a Batch the INSERT has it: see [idUntil].
	s.Add(" AND ? > UTC_TIMESTAMP(6)", writtenBy(o).UTC())
	if version == sameVersion {
		// A replica that has missed writes may have the same version with another quantity.
		s.Add(" AND version = ? AND quantity = ?", o.Version, o.Read)
	}
	rows, err := repo.Send(tx, s.Text.String(), s.Args...)
	if err == nil && rows == 0 {
		return saleRefusal(tx, o, version)
	}
	return err
}

const (
	insertOrders = "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left," +
		" strategy, instance, request_id, fence, segment, created_at, idempotency_key, fingerprint) VALUES "
	orderValues = ", ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

// inserting returns the INSERT of an order. [repo.SettledIfTaken] converts its error.
func inserting(o service.Order) *repo.Statement {
	s := &repo.Statement{Args: make([]any, 0, 15)}
	s.Text.Grow(len(insertOrders) + 2 + len(orderValues))
	s.Add(insertOrders)
	s.Add("(?", o.ID)
	addOrder(s, o)
	return s
}

// CanWrite returns an error if the server would refuse the write of a sale: see [repo.MySQL.WriteProbe].
func (m *MySQL) CanWrite(ctx context.Context) error {
	return m.WriteProbe(ctx, func(s *repo.Statement, id string) {
		s.Add(insertOrders+"(?", id)
		addOrder(s, service.Order{RequestID: strings.Repeat("x", 255), CreatedAt: time.Unix(1, 0)})
		s.Add("; " + repo.UpdateNothing)
	})
}

// addOrder adds the values of an order except its id.
func addOrder(s *repo.Statement, o service.Order) {
	s.Add(orderValues, string(o.SKU), o.Epoch, o.Version, o.Quantity, o.Read, o.Remaining,
		o.Strategy, o.Instance, o.RequestID, o.Fence, o.Segment, o.CreatedAt.UTC(), orNull(o.Key.ID),
		orNull(o.Key.Fingerprint))
}

// orNull returns s, or NULL for "": a unique index accepts any number of NULLs.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// saleRefusal returns the reason why the UPDATE matched no row. It checks the conditions in the same sequence as
// refuse.lua.
func saleRefusal(tx *gorm.DB, o service.Order, wanted check) error {
	row, err := selectRow(tx, o.SKU, unlocked)
	if err == nil {
		err = row.refusal(o.Epoch, o.Strategy)
	}
	if err != nil {
		return err
	}
	version, quantity, fence := row.Version, row.Quantity, row.Fence
	if o.Segment != 0 {
		var part segmentRow // a segment that does not exist has version 0
		if err := tx.Where("sku = ? AND segment = ?", string(o.SKU), o.Segment).Limit(1).Find(&part).Error; err != nil {
			return err
		}
		version, quantity, fence = part.Version, part.Quantity, part.Fence
	}
	stale := checkFence(o.Fence, fence)
	switch {
	case o.Segment != 0 && version == 0:
		return service.ErrConflict
	case stale != nil:
		return stale
	case wanted == sameVersion && (version != o.Version || quantity != o.Read):
		return service.ErrConflict
	}
	var late bool
	if err := tx.Raw("SELECT ? <= UTC_TIMESTAMP(6)", writtenBy(o).UTC()).Row().Scan(&late); err != nil {
		return err
	}
	if late {
		return service.ErrSettled
	}
	return repo.ErrChanged
}

// The values of selectRow's parameter locking.
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

// A stockRow is a row of stock. Write it as a map or with Create, never with Updates(stockRow{...}): gorm omits zero
// values, so a quantity of 0 would not be written.
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

// refusal returns the reason why strategy may not write to the stock that it has read in epoch, or nil.
func (r stockRow) refusal(epoch uint64, strategy string) error {
	switch {
	case r.Epoch != epoch:
		return service.ErrStockReset
	case r.Guard != "" && r.Guard != strategy:
		return &service.GuardError{Guard: r.Guard}
	}
	return nil
}

func (r stockRow) stock() service.Stock {
	return service.Stock{
		SKU: service.SKU(r.SKU), Quantity: r.Quantity, Initial: r.Initial, Sold: r.Sold,
		Version: r.Version, Epoch: r.Epoch, Fence: r.Fence, Guard: r.Guard,
	}
}

func (stockRow) TableName() string { return "stock" }

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

func (orderRow) TableName() string { return "orders" }

func (r *orderRow) order() service.Order {
	return service.Order{
		ID: r.ID, SKU: service.SKU(r.SKU), Quantity: r.Quantity,
		Read: r.Read, Remaining: r.Remaining, Version: r.Version, Epoch: r.Epoch,
		Strategy: r.Strategy, Instance: r.Instance, RequestID: r.RequestID,
		Fence: r.Fence, Segment: r.Segment, CreatedAt: r.CreatedAt,
	}
}
