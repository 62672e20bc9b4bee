package stock

import (
	"context"
	"errors"
	"math"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Set takes six round trips, or nine if the stock was in segments. With a condition it locks and checks the rows, which
// takes one more, or two if the stock is in segments. At the end Set removes orders of earlier epochs that are older
// than KeepOrders, up to 20000 of them, with two round trips for each 1000. Such orders do not count and cannot be read
// through the API; copy them from the table if you need them for longer.
func (m *MySQL) Set(
	ctx context.Context, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	var row stockRow
	err := m.Transaction(ctx, "set stock", func(tx *gorm.DB) error {
		there, err := checkCondition(tx, sku, c)
		if err != nil {
			return err
		}
		exists := clause.OnConflict{DoNothing: true}
		if there {
			exists = clause.OnConflict{DoUpdates: newEpoch(quantity)}
		}
		done := tx.Model(&stockRow{}).Clauses(exists).Create(freshStock(sku, quantity))
		switch err = done.Error; {
		case err == nil && done.RowsAffected > 0:
			err = endSegments(tx, sku)
		case err == nil && !there:
			err = repo.ErrChanged // another client has created it: check the condition again
		}
		if err == nil {
			row, err = selectRow(tx, sku, unlocked)
		}
		return err
	})
	if err == nil {
		m.forget(ctx, sku, row.Epoch)
	}
	return row.stock(), err
}

// newEpoch returns the assignments with which Set replaces a stock. VALUES(epoch) is the epoch of freshStock.
func newEpoch(quantity int64) clause.Set {
	return clause.Assignments(map[string]any{
		"quantity": quantity, "initial": quantity, "sold": 0, "version": gorm.Expr("version + 1"),
		"epoch": gorm.Expr("GREATEST(epoch + 1, VALUES(epoch))"), "fence": 0, "guard": "",
	})
}

// Seed puts quantity units of sku in a database that has no stock yet. It takes three round trips, or four if it
// creates the SKU.
func (m *MySQL) Seed(ctx context.Context, sku service.SKU, quantity int64) error {
	return m.Transaction(ctx, "seed stock", func(tx *gorm.DB) error {
		var there []string
		err := tx.Model(&stockRow{}).Limit(1).Pluck("sku", &there).Error
		if err == nil && len(there) == 0 {
			// Another instance may seed at the same moment.
			missing := tx.Model(&stockRow{}).Clauses(clause.OnConflict{DoNothing: true})
			err = missing.Create(freshStock(sku, quantity)).Error
		}
		return err
	})
}

// freshStock returns the columns of a stock that did not exist. Its epoch is the time of the server in µs, so that no
// epoch comes again after the row was deleted. newEpoch does the same, and adds one to the epoch if the clock is
// behind it.
func freshStock(sku service.SKU, quantity int64) map[string]any {
	now := gorm.Expr("TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))")
	return map[string]any{
		"sku": string(sku), "quantity": quantity, "initial": quantity, "sold": 0, "version": 1, "epoch": now,
		"fence": 0, "guard": "",
	}
}

// checkCondition fails with service.ErrPrecondition if c does not hold. Otherwise it locks the stock until the
// transaction ends, and reports whether the stock exists. If c is empty, it locks nothing and returns true. A row
// that does not exist cannot be locked, so another client may create it meanwhile.
func checkCondition(tx *gorm.DB, sku service.SKU, c service.Condition) (there bool, err error) {
	if c.None() {
		return true, nil
	}
	tag := ""
	row, err := selectRow(tx, sku, locked)
	switch {
	case err == nil:
		if row.segmented() {
			err = row.addSegments(tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}))
		}
		tag = row.stock().Tag()
	case errors.Is(err, service.ErrUnknownSKU):
		err = nil
	}
	if err == nil && !c.Holds(tag) {
		err = service.ErrPrecondition
	}
	return tag != "", err
}

const (
	// forgetChunk is the number of orders that are read and removed at a time.
	forgetChunk = 1000
	// forgetChunks is how many chunks one call removes at most. The next call removes more.
	forgetChunks = 20
)

// forget removes rows of sku in epochs before epoch that are older than KeepOrders by the server's clock, the oldest
// first. They are orders that cannot be read any more, and tombstones, whose epoch is 0. It takes one round trip if
// there are none, and two for each chunk. It reports no failure, because the next Set or Settle tries again.
//
// It reads the rows without locks and deletes them by number. A DELETE over a range of epochs would lock the gap at
// its end, into which the sales of the new epoch insert.
func (m *MySQL) forget(ctx context.Context, sku service.SKU, epoch uint64) {
	db := m.On(ctx)
	for range forgetChunks {
		var rows []struct {
			Seq uint64
			Old bool
		}
		err := db.Raw("SELECT seq, created_at < UTC_TIMESTAMP(6) - INTERVAL ? SECOND AS old FROM orders"+
			" WHERE sku = ? AND epoch < ? ORDER BY epoch, seq LIMIT ?",
			int(KeepOrders.Seconds()), string(sku), epoch, forgetChunk).Scan(&rows).Error
		var old []uint64
		for _, row := range rows {
			if row.Old {
				old = append(old, row.Seq)
			}
		}
		if err != nil || len(old) == 0 {
			return
		}
		if err := db.Where("seq IN ?", old).Delete(&orderRow{}).Error; err != nil || len(old) < forgetChunk {
			return
		}
	}
}

// Orders takes two round trips. It fails with service.ErrStockReset if the epoch of the cursor has ended.
//
// Sales from different segments do not wait for each other, so an order may commit after an order with a larger
// number. If the page has such sales and is not the last, Orders waits for the sales under way and reads the page
// again, so that no order can later appear before the cursor. That takes two more round trips, and one per segment.
func (m *MySQL) Orders(ctx context.Context, sku service.SKU, from string, limit int) ([]service.Order, string, error) {
	at, err := parseCursor(from)
	if err != nil {
		return nil, "", err
	}
	var epoch uint64
	var rows []orderRow
	err = m.Ask(ctx, "read orders", func(db *gorm.DB) error {
		stock, err := selectRow(db, sku, unlocked)
		switch {
		case err != nil:
			return err
		case at.epoch != 0 && at.epoch != stock.Epoch:
			return service.ErrStockReset
		}
		epoch = stock.Epoch
		// One more order than limit shows whether there is a next page.
		rows, err = page(db, sku, epoch, at.after, math.MaxInt64, limit+1)
		parted := slices.ContainsFunc(rows, func(r orderRow) bool { return r.Segment != 0 })
		if err == nil && len(rows) > limit && parted {
			if err = waitForSegmentSales(db, sku); err == nil {
				rows, err = page(db, sku, epoch, at.after, int64(rows[limit].Seq), limit+1)
			}
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(rows) > limit {
		rows = rows[:limit]
		next = cursor{epoch, int64(rows[limit-1].Seq)}.String()
	}
	orders := make([]service.Order, len(rows))
	for i := range rows {
		orders[i] = rows[i].order()
	}
	return orders, next, nil
}

// page reads the orders whose numbers are above after and at most last.
func page(
	db *gorm.DB, sku service.SKU, epoch uint64, after, last int64, limit int,
) (rows []orderRow, err error) {
	err = db.Where("sku = ? AND epoch = ? AND seq > ? AND seq <= ?", string(sku), epoch, after, last).
		Order("seq").Limit(limit).Find(&rows).Error
	return rows, err
}

// waitForSegmentSales waits until every sale from a segment of sku that already has a number has ended. Such a sale
// holds the lock of its segment's row, and a later sale gets a larger number. It locks one row at a time, so that a
// wait for one segment does not block the sales from others.
func waitForSegmentSales(db *gorm.DB, sku service.SKU) error {
	var segments []int
	err := db.Raw("SELECT segment FROM stock_segments WHERE sku = ?", string(sku)).Scan(&segments).Error
	if err != nil {
		return err
	}
	for _, segment := range segments {
		var version uint64
		err := db.Raw("SELECT version FROM stock_segments WHERE sku = ? AND segment = ? LOCK IN SHARE MODE",
			string(sku), segment).Scan(&version).Error
		if err != nil {
			return err
		}
	}
	return nil
}
