package repo

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/service"
)

// Raise is three round trips, and one more where there was nothing to raise; of a segment five. An ErrOutcomeUnknown may be tried again: to raise
// twice is to raise once.
func (m *MySQL) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	const doing = "raise fence"
	leave, err := m.enter(ctx, doing, writing(sku, 0))
	if err != nil {
		return err
	}
	defer leave()
	return m.transact(ctx, doing, func(tx *gorm.DB) error {
		err := raise(tx, sku, strategy, fence) // that of the whole is the largest of its parts, and its guard that of all
		if err == nil && segment != 0 {
			err = raiseSegment(tx, sku, segment, strategy, fence)
		}
		return explain(ctx, doing, err)
	})
}

// raiseSegment makes the segment if it is not there: whoever was about to make it finds it made, and its fence in the way of what comes then.
func raiseSegment(tx *gorm.DB, sku service.SKU, segment int, strategy string, fence uint64) error {
	// Locked, so that the epoch stays: the UPDATE before has locked it only if there was something to raise.
	row, err := take(tx, sku, locked)
	switch {
	case err != nil:
		return err
	case row.Guard != strategy:
		return errChanged
	}
	return tx.Clauses(clause.OnConflict{
		DoUpdates: clause.Assignments(map[string]any{"fence": gorm.Expr("GREATEST(fence, ?)", fence)}),
	}).Create(&segmentRow{SKU: string(sku), Segment: segment, Version: 1, Epoch: row.Epoch, Fence: fence, Guard: strategy}).Error
}

func raise(tx *gorm.DB, sku service.SKU, strategy string, fence uint64) error {
	done := tx.Model(&stockRow{}).
		Where("sku = ? AND guard IN ('', ?) AND fence < ?", string(sku), strategy, fence).
		Updates(map[string]any{"fence": fence, "guard": strategy})
	if done.Error != nil || done.RowsAffected == 1 {
		return done.Error
	}
	row, err := take(tx, sku, unlocked)
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
