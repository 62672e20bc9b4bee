package repo

import (
	"context"

	"gorm.io/gorm"

	"example.com/stock/service"
)

// Raise is three round trips, and one more where there was nothing to raise. An ErrOutcomeUnknown may be tried again: to raise twice is
// to raise once.
func (m *MySQL) Raise(ctx context.Context, sku service.SKU, strategy string, fence uint64) error {
	const doing = "raise fence"
	return m.transact(ctx, doing, func(tx *gorm.DB) error { return explain(ctx, doing, raise(tx, sku, strategy, fence)) })
}

func raise(tx *gorm.DB, sku service.SKU, strategy string, fence uint64) error {
	done := tx.Model(&stockRow{}).
		Where("sku = ? AND guard IN ('', ?) AND fence < ?", string(sku), strategy, fence).
		Updates(map[string]any{"fence": fence, "guard": strategy})
	if done.Error != nil || done.RowsAffected == 1 {
		return done.Error
	}
	row, err := take(tx, sku)
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

var _ service.Fencer = (*MySQL)(nil)
