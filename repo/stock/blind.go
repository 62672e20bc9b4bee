package stock

import (
	"context"

	"gorm.io/gorm"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// The writes of this file are blind: they set the quantity that the caller has computed, even if units were sold since
// the caller read it. Without a lock this loses updates, which the demonstration shows.

// A check says which version of the stock a write accepts. Epoch, guard and fence are always checked.
type check int

const (
	anyVersion  check = iota // a blind write
	sameVersion              // the version and the quantity that were read
)

// Write takes two round trips. It is blind.
func (m *MySQL) Write(ctx context.Context, o service.Order) error { return m.write(ctx, o, anyVersion) }

// Write takes two round trips. It is blind, but loses no update if the caller has read in the same transaction.
func (t *transaction) Write(ctx context.Context, o service.Order) error {
	return t.do(ctx, "write order", func(tx *gorm.DB) error {
		if err := sell(tx, o, anyVersion, ""); err != nil {
			return err
		}
		insert := inserting(o)
		_, err := repo.Send(tx, insert.Text.String(), insert.Args...)
		return repo.SettledIfTaken(err)
	})
}

// Write takes one round trip. It is blind.
func (r *Redis) Write(ctx context.Context, o service.Order) error { return r.write(ctx, o, anyVersion) }
