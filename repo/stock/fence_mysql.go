package stock

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// compareFence adds to an UPDATE the condition that no write had a larger fence. A fence of 0 adds nothing.
func compareFence(s *repo.Statement, fence uint64) {
	if fence != 0 {
		s.Add(" AND fence <= ?", fence)
	}
}

// keepFence makes an UPDATE store the fence. A fence of 0 adds nothing.
func keepFence(s *repo.Statement, fence uint64) {
	if fence != 0 {
		s.Add(", fence = ?", fence)
	}
}

// Raise takes three round trips, or five for a segment, and one more if the fence of the stock was already large
// enough. It is idempotent, so it may be called again after an ErrOutcomeUnknown.
func (m *MySQL) Raise(ctx context.Context, sku service.SKU, segment int, strategy string, fence uint64) error {
	return m.Transaction(ctx, "raise fence", func(tx *gorm.DB) error {
		// The stock has the largest fence of its segments, and the guard of all of them.
		err := raise(tx, sku, strategy, fence)
		if err == nil && segment != 0 {
			err = raiseSegment(tx, sku, segment, strategy, fence)
		}
		return err
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
	if err == nil {
		err = row.refusal(row.Epoch, strategy)
	}
	if err == nil && row.Fence < fence {
		err = repo.ErrChanged
	}
	return err
}

// raiseSegment raises the fence of a segment, and creates the segment if it does not exist. So a client that tries to
// create the segment at the same time fails, and its later writes are refused because of their smaller fence.
func raiseSegment(tx *gorm.DB, sku service.SKU, segment int, strategy string, fence uint64) error {
	// The row is locked, so that the epoch stays the same. raise has locked it only if the fence had to be raised.
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
