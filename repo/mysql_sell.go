package repo

import (
	"fmt"

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
	scope := tx.Where("epoch = ?", o.Epoch)
	if k == swapping {
		scope = scope.Where("version = ?", o.Version)
	}
	sold, err := sell(scope, o, o.Remaining)
	switch {
	case err != nil:
		return err
	case !sold:
		return refusedBy(tx, o, k)
	}
	return tx.Create(rowOf(o)).Error
}

// deduct is the conditional UPDATE: the server checks and subtracts under its own row lock.
func deduct(tx *gorm.DB, o service.Order) (service.Order, error) {
	scope := tx.Where("quantity >= ?", o.Quantity)
	if o.Epoch != 0 {
		scope = scope.Where("epoch = ?", o.Epoch)
	}
	sold, err := sell(scope, o, gorm.Expr("quantity - ?", o.Quantity))
	switch {
	case err != nil:
		return o, err
	case !sold:
		return o, refusedBy(tx, o, deducting)
	}
	// Our UPDATE holds the row's lock, so this is what it wrote and nobody else's.
	row, err := take(tx, o.SKU)
	if err != nil {
		return o, err
	}
	o.Read, o.Remaining, o.Version, o.Epoch = row.Quantity+o.Quantity, row.Quantity, row.Version-1, row.Epoch
	return o, tx.Create(rowOf(o)).Error
}

// sell is the UPDATE that Write and Deduct share. They differ by the quantity that is left, a number or an expression. It tells
// whether there was a row to update. That of a segment is guarded from the start.
func sell(scope *gorm.DB, o service.Order, left any) (bool, error) {
	set := map[string]any{
		"quantity": left,
		"sold":     gorm.Expr("sold + ?", o.Quantity),
		"version":  gorm.Expr("version + 1"),
		"guard":    o.Strategy,
	}
	if o.Segment == 0 {
		scope = scope.Model(&stockRow{}).Where("sku = ? AND guard IN ('', ?)", string(o.SKU), o.Strategy)
	} else {
		scope = scope.Model(&segmentRow{}).Where("sku = ? AND segment = ? AND guard = ?", string(o.SKU), o.Segment, o.Strategy)
	}
	if o.Fence != 0 {
		scope = scope.Where("fence <= ?", o.Fence)
		set["fence"] = o.Fence
	}
	done := scope.Updates(set)
	return done.RowsAffected == 1, done.Error
}

// refusedBy says which condition of the UPDATE did not hold, in the same order as refuse.lua.
func refusedBy(tx *gorm.DB, o service.Order, k kind) error {
	row, err := take(tx, o.SKU)
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
	default:
		return errChanged
	}
}
