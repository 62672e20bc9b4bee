package stock

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// compareFence adds the condition of a fence to an UPDATE. A sale without a fence has none.
func compareFence(s *repo.Statement, fence uint64) {
	if fence != 0 {
		s.Add(" AND fence <= ?", fence)
	}
}

// keepFence makes an UPDATE keep the fence.
func keepFence(s *repo.Statement, fence uint64) {
	if fence != 0 {
		s.Add(", fence = ?", fence)
	}
}

// Raise is three round trips, and one more where there was nothing to raise; for a segment it is five. After an
// ErrOutcomeUnknown it may be called again: raising is idempotent.
func (m *MySQL) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	const doing = "raise fence"
	leave, err := m.Enter(ctx, doing, repo.Writing(sku, 0))
	if err != nil {
		return err
	}
	defer leave()
	return m.Transaction(ctx, doing, func(tx *gorm.DB) error {
		// The fence of the whole is the largest of its segments, and its guard is that of all segments.
		err := raise(tx, sku, strategy, fence)
		if err == nil && segment != 0 {
			err = raiseSegment(tx, sku, segment, strategy, fence)
		}
		return repo.Explain(ctx, doing, err)
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
		return repo.ErrChanged
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
		return repo.ErrChanged
	}
	return tx.Clauses(clause.OnConflict{
		DoUpdates: clause.Assignments(map[string]any{"fence": gorm.Expr("GREATEST(fence, ?)", fence)}),
	}).Create(&segmentRow{
		SKU: string(sku), Segment: segment, Version: 1, Epoch: row.Epoch, Fence: fence, Guard: strategy,
	}).Error
}
