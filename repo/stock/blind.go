package stock

import (
	"context"

	"gorm.io/gorm"

	"example.com/stock/service"
)

// The writes of this file are blind: they set the quantity that the caller has computed, even if units were sold since
// the caller read it. Without a lock this loses updates, which the demonstration shows.

// A kind is the condition of a write, in addition to epoch, guard and fence.
type kind int

const (
	blind    kind = iota // none
	swapping             // the stock still has the version and the quantity that were read
)

// anyVersion is the version for a blind write to Redis.
const anyVersion = ""

// Write takes two round trips. It is blind.
func (m *MySQL) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return m.write(ctx, o, blind)
}

// Write takes two round trips. It is blind, but loses no update if the caller has read in the same transaction.
func (t *transaction) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return t.do(ctx, "write order", func(tx *gorm.DB) error { return write(tx, o, blind) })
}

// Write takes one round trip. It is blind.
func (r *Redis) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return r.write(ctx, o, anyVersion)
}
