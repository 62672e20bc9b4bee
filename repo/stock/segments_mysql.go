package stock

import (
	"cmp"
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// A segmentRow is a row of stock_segments. All segments of a SKU are of its current epoch; a new epoch has none.
type segmentRow struct {
	SKU      string `gorm:"column:sku;primaryKey"`
	Segment  int    `gorm:"column:segment;primaryKey"`
	Quantity int64  `gorm:"column:quantity"`
	Sold     int64  `gorm:"column:sold"`
	Version  uint64 `gorm:"column:version"`
	Epoch    uint64 `gorm:"column:epoch"`
	Fence    uint64 `gorm:"column:fence"`
	Guard    string `gorm:"column:guard"`
}

func (segmentRow) TableName() string { return "stock_segments" }

// segmented reports whether the stock is in segments: then some units are neither in this row nor sold from it.
func (r stockRow) segmented() bool { return r.Quantity+r.Sold < r.Initial }

// addSegments adds all segments to r, in one round trip.
func (r *stockRow) addSegments(tx *gorm.DB) error {
	var rows []segmentRow
	err := tx.Where("sku = ?", r.SKU).Find(&rows).Error
	for _, part := range rows {
		r.addSegment(part)
	}
	return err
}

func (r *stockRow) addSegment(part segmentRow) {
	r.Quantity += part.Quantity
	r.Sold += part.Sold
	r.Version += part.Version
	r.Fence = max(r.Fence, part.Fence)
}

// selectParts reads the row of the stock, as number 0, and those of its segments. A single statement sees all rows at
// the same moment at any isolation level.
const selectParts = `SELECT 0 AS segment, sku, quantity, sold, version, epoch, fence, guard, initial
FROM stock WHERE sku = ?
UNION ALL SELECT segment, sku, quantity, sold, version, epoch, fence, guard, 0
FROM stock_segments WHERE sku = ? ORDER BY segment`

// Segments takes one round trip.
func (m *MySQL) Segments(ctx context.Context, sku service.SKU) (all service.Segments, err error) {
	err = m.Ask(ctx, "read segments", func(db *gorm.DB) error {
		all, err = selectSegments(db, sku)
		return err
	})
	return all, err
}

func selectSegments(db *gorm.DB, sku service.SKU) (service.Segments, error) {
	var rows []struct {
		Part    segmentRow `gorm:"embedded"`
		Initial int64      `gorm:"column:initial"`
	}
	err := db.Raw(selectParts, string(sku), string(sku)).Scan(&rows).Error
	switch {
	case err != nil:
		return service.Segments{}, err
	case len(rows) == 0 || rows[0].Part.Segment != 0:
		return service.Segments{}, unknownSKU(sku)
	}
	first := rows[0].Part
	whole := stockRow{
		SKU: first.SKU, Quantity: first.Quantity, Initial: rows[0].Initial, Sold: first.Sold,
		Version: first.Version, Epoch: first.Epoch, Fence: first.Fence, Guard: first.Guard,
	}
	all := service.Segments{Reserve: whole.Quantity}
	segmented := whole.segmented() // if not, the segments are empty, and Read ignores them
	for _, row := range rows[1:] {
		p := row.Part
		if segmented {
			whole.addSegment(p)
		}
		all.Rows = append(all.Rows, service.Segment{
			Number: p.Segment, Quantity: p.Quantity, Version: p.Version, Fence: p.Fence,
		})
	}
	all.Stock = whole.stock()
	return all, nil
}

// Refill takes four round trips (BEGIN, UPDATE the reserve, UPDATE or INSERT the segment, COMMIT), and one more for
// each segment that gives units.
func (m *MySQL) Refill(ctx context.Context, g service.Refill) error {
	const doing = "refill segment"
	err := m.Transaction(ctx, doing, func(tx *gorm.DB) error { return refill(tx, g) })
	return repo.Idempotent(ctx, doing, err)
}

// refill locks the row of the stock first, even if it takes nothing from the reserve, so that refills and Set wait for
// each other at this row. Sales from other segments continue, because they use other rows.
func refill(tx *gorm.DB, g service.Refill) error {
	done := tx.Model(&stockRow{}).
		Where("sku = ? AND epoch = ? AND guard IN ('', ?) AND quantity >= ?",
			string(g.SKU), g.Epoch, g.Strategy, g.Reserve).
		Updates(map[string]any{
			"quantity": gorm.Expr("quantity - ?", g.Reserve), "version": gorm.Expr("version + 1"), "guard": g.Strategy,
		})
	switch {
	case done.Error != nil:
		return done.Error
	case done.RowsAffected == 0:
		row, err := selectRow(tx, g.SKU, unlocked)
		if err == nil {
			err = row.refusal(g.Epoch, g.Strategy)
		}
		return cmp.Or(err, service.ErrConflict)
	}
	moved := g.Reserve
	for _, row := range g.From {
		moved += row.Quantity // change checks that the segment still has as many
		if err := change(tx, g, row, map[string]any{"quantity": 0}); err != nil {
			return err
		}
	}
	if g.Into.Version > 0 {
		return change(tx, g, g.Into, map[string]any{"quantity": gorm.Expr("quantity + ?", moved)})
	}
	err := tx.Create(&segmentRow{
		SKU: string(g.SKU), Segment: g.Into.Number, Quantity: moved, Version: 1, Epoch: g.Epoch, Guard: g.Strategy,
	}).Error
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		return service.ErrConflict
	}
	return err
}

// change updates a segment if its version and its quantity are those that were read.
func change(tx *gorm.DB, g service.Refill, as service.Segment, set map[string]any) error {
	set["version"] = gorm.Expr("version + 1")
	done := tx.Model(&segmentRow{}).
		Where("sku = ? AND segment = ? AND epoch = ? AND version = ? AND quantity = ?",
			string(g.SKU), as.Number, g.Epoch, as.Version, as.Quantity).
		Updates(set)
	if done.Error == nil && done.RowsAffected == 0 {
		return service.ErrConflict
	}
	return done.Error
}

// endSegments removes all segments of a stock that was just set, and whose row is locked. It takes one round trip, or
// four if there are any.
//
// It adds the versions of the segments to the version of the stock, which must not decrease. It first counts the rows
// without locks, because locking an empty range locks the gap, into which other clients may be about to insert.
func endSegments(tx *gorm.DB, sku service.SKU) error {
	var there int64
	own := func() *gorm.DB { return tx.Model(&segmentRow{}).Where("sku = ?", string(sku)) }
	if err := own().Count(&there).Error; err != nil || there == 0 {
		return err
	}
	var versions uint64
	err := own().Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).
		Select("COALESCE(SUM(version), 0)").Scan(&versions).Error
	if err != nil {
		return err
	}
	if err := own().Delete(&segmentRow{}).Error; err != nil {
		return err
	}
	return tx.Model(&stockRow{}).Where("sku = ?", string(sku)).
		Update("version", gorm.Expr("version + ?", versions)).Error
}
