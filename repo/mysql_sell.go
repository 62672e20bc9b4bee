package repo

import (
	"fmt"
	"strings"

	"gorm.io/gorm"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// errChanged: an UPDATE matched nothing, and when the row was read to say why, there was no reason left: the stock was set in between.
// The transaction is run again, as a whole: within this one the row would be read from the same snapshot for ever.
var errChanged = fmt.Errorf("stock keeps changing: row %w", lock.ErrHeld)

// A kind of write is what it wants to find, besides epoch, guard and fence.
type kind int

const (
	blind     kind = iota // anything
	swapping              // the version that was read
	deducting             // enough
)

// write is the write of read, think, write.
func write(tx *gorm.DB, o service.Order, k kind) error {
	sold, err := sell(tx, o, k)
	switch {
	case err != nil:
		return err
	case !sold:
		return refusedBy(tx, o, k)
	}
	return record(tx, o)
}

// deduct is the conditional UPDATE: the server checks and subtracts under its own row lock.
func deduct(tx *gorm.DB, o service.Order) (service.Order, error) {
	sold, err := sell(tx, o, deducting)
	switch {
	case err != nil:
		return o, err
	case !sold:
		return o, refusedBy(tx, o, deducting)
	}
	// Our UPDATE holds the row's lock, so this is what it wrote and nobody else's.
	row, err := take(tx, o.SKU, unlocked)
	if err != nil {
		return o, err
	}
	o.Read, o.Remaining, o.Version, o.Epoch = row.Quantity+o.Quantity, row.Quantity, row.Version-1, row.Epoch
	return o, record(tx, o)
}

// A statement is SQL and its parameters as they come together. Between the lock of a row and COMMIT nobody else sells it: there statements
// are written out, because gorm needs 40 µs to make them from maps and structs, and 200 allocations.
type statement struct {
	text strings.Builder
	args []any
}

func (s *statement) add(text string, args ...any) {
	s.text.WriteString(text)
	s.args = append(s.args, args...)
}

// sell is the UPDATE that Write, Swap and Deduct share. It tells whether there was a row to update. That of a segment is guarded from the start.
func sell(tx *gorm.DB, o service.Order, k kind) (bool, error) {
	s := statement{args: make([]any, 0, 13)}
	if o.Segment == 0 {
		s.add("UPDATE stock")
	} else {
		s.add("UPDATE stock_segments")
	}
	s.add(" SET sold = sold + ?, version = version + 1, guard = ?", o.Quantity, o.Strategy)
	if k == deducting {
		s.add(", quantity = quantity - ?", o.Quantity)
	} else {
		s.add(", quantity = ?", o.Remaining)
	}
	if o.Fence != 0 {
		s.add(", fence = ?", o.Fence)
	}
	s.add(" WHERE sku = ?", string(o.SKU))
	if o.Segment == 0 {
		s.add(" AND guard IN ('', ?)", o.Strategy)
	} else {
		s.add(" AND segment = ? AND guard = ?", o.Segment, o.Strategy)
	}
	if k != deducting || o.Epoch != 0 {
		s.add(" AND epoch = ?", o.Epoch)
	}
	if o.Fence != 0 {
		s.add(" AND fence <= ?", o.Fence)
	}
	// Here and not in the INSERT, which would have to be one with SELECT and lock the table's counter. See Settle.
	s.add(" AND ? > UTC_TIMESTAMP(6)", writtenBy(o).UTC())
	switch k {
	case swapping:
		s.add(" AND version = ?", o.Version)
	case deducting:
		s.add(" AND quantity >= ?", o.Quantity)
	}
	rows, err := send(tx, s.text.String(), s.args...)
	return rows == 1, err
}

// record inserts the order. One whose id is taken is service.ErrSettled: the UPDATE before is rolled back with it.
func record(tx *gorm.DB, o service.Order) error {
	_, err := send(tx, "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy, instance, request_id,"+
		" fence, segment, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		o.ID, string(o.SKU), o.Epoch, o.Version, o.Quantity, o.Read, o.Remaining, o.Strategy, o.Instance, o.RequestID,
		o.Fence, o.Segment, o.CreatedAt.UTC())
	return taken(err)
}

// refusedBy says which condition of the UPDATE did not hold, in the same order as refuse.lua.
func refusedBy(tx *gorm.DB, o service.Order, k kind) error {
	row, err := take(tx, o.SKU, unlocked)
	version, fence := row.Version, row.Fence
	if err == nil && o.Segment != 0 {
		var part segmentRow // one that is not there has version 0
		err = tx.Where("sku = ? AND segment = ?", string(o.SKU), o.Segment).Limit(1).Find(&part).Error
		version, fence = part.Version, part.Fence
	}
	switch {
	case err != nil:
		return err
	case row.Epoch != o.Epoch && !(k == deducting && o.Epoch == 0):
		return service.ErrStockReset
	case row.Guard != "" && row.Guard != o.Strategy:
		return &service.GuardError{Guard: row.Guard}
	case o.Segment != 0 && version == 0:
		return service.ErrConflict
	case o.Fence != 0 && o.Fence < fence:
		return staleFence(fence)
	case k == deducting && row.Quantity < o.Quantity:
		return &service.SoldOutError{Remaining: row.Quantity}
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
