package repo

import (
	"context"
	"errors"
	"math"
	"slices"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/service"
)

// Set is six round trips, nine if the stock was in segments. The last of them looks for orders of earlier epochs that are older than KeepOrders,
// and removes them, up to 20000: they do not count and cannot be asked for. Whoever needs them for longer copies them.
func (m *MySQL) Set(ctx context.Context, sku service.SKU, quantity int64) (service.Stock, error) {
	return m.SetIf(ctx, sku, quantity, service.Condition{})
}

// SetIf is Set, with a condition one round trip more, two if the stock is in segments: its rows are locked and looked
// at first.
func (m *MySQL) SetIf(
	ctx context.Context, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	stock, err := m.put(ctx, "set stock", sku, quantity, c, clause.OnConflict{
		DoUpdates: clause.Assignments(map[string]any{
			"quantity": quantity, "initial": quantity, "sold": 0,
			"version": gorm.Expr("version + 1"), "epoch": gorm.Expr("epoch + 1"),
			"fence": 0, "guard": "",
		}),
	})
	if err == nil && stock.Epoch > 1 {
		m.forget(ctx, sku, stock.Epoch)
	}
	return stock, err
}

// Seed is four round trips, five if it makes the SKU.
func (m *MySQL) Seed(ctx context.Context, sku service.SKU, quantity int64) error {
	_, err := m.put(ctx, "seed stock", sku, quantity, service.Condition{}, clause.OnConflict{DoNothing: true})
	return err
}

func (m *MySQL) put(
	ctx context.Context, doing string, sku service.SKU, quantity int64, c service.Condition, exists clause.OnConflict,
) (service.Stock, error) {
	if err := checkQuantity("quantity", quantity); err != nil {
		return service.Stock{}, err
	}
	leave, err := m.enter(ctx, doing, writing(sku, 0))
	if err != nil {
		return service.Stock{}, err
	}
	defer leave()
	var row stockRow
	err = m.transact(ctx, doing, func(tx *gorm.DB) error {
		there, err := holds(tx, sku, c)
		if err != nil {
			return explain(ctx, doing, err)
		}
		exists := exists
		if !there {
			exists = clause.OnConflict{DoNothing: true}
		}
		fresh := &stockRow{SKU: string(sku), Quantity: quantity, Initial: quantity, Version: 1, Epoch: 1}
		done := tx.Clauses(exists).Create(fresh)
		switch err = done.Error; {
		case err == nil && done.RowsAffected > 0:
			err = unite(tx, sku)
		case err == nil && !there:
			err = errChanged // somebody else has made it: look again
		}
		if err == nil {
			row, err = take(tx, sku, unlocked)
		}
		return explain(ctx, doing, err)
	})
	return row.stock(), err
}

// holds fails with service.ErrPrecondition if c does not hold, and otherwise keeps the stock as it is until the
// transaction ends. It tells whether there is any, true if nothing is asked. A row that is not there cannot be locked,
// so another may make it meanwhile.
func holds(tx *gorm.DB, sku service.SKU, c service.Condition) (there bool, err error) {
	if c.None() {
		return true, nil
	}
	tag := ""
	row, err := take(tx, sku, locked)
	switch {
	case err == nil:
		if row.parted() {
			err = row.add(tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}))
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

// Orders is two round trips. A cursor of an epoch that is over fails with service.ErrStockReset.
//
// Orders of sales from segments commit in another order than they draw their numbers in: segments do not wait for each
// other. Where there is a next page it waits for those under way, so that none comes to be behind the cursor: three
// round trips more and one for each segment.
func (m *MySQL) Orders(ctx context.Context, sku service.SKU, from string, limit int) ([]service.Order, string, error) {
	at, err := parseCursor(from)
	if err == nil {
		err = checkLimit(limit)
	}
	if err != nil {
		return nil, "", err
	}
	const doing = "read orders"
	leave, err := m.enter(ctx, doing, reading(sku))
	if err != nil {
		return nil, "", err
	}
	defer leave()
	stock, err := take(m.db.WithContext(ctx), sku, unlocked)
	switch {
	case err != nil:
		return nil, "", m.unread(ctx, doing, err)
	case at.epoch != 0 && at.epoch != stock.Epoch:
		return nil, "", service.ErrStockReset
	}
	// One more than asked for tells whether there is a next page.
	rows, err := m.page(ctx, sku, stock.Epoch, at.after, math.MaxInt64, limit+1)
	if err == nil && len(rows) > limit && slices.ContainsFunc(rows, func(r orderRow) bool { return r.Segment != 0 }) {
		if err = m.outwait(ctx, sku); err == nil {
			rows, err = m.page(ctx, sku, stock.Epoch, at.after, int64(rows[limit].Seq), limit+1)
		}
	}
	if err != nil {
		return nil, "", m.unread(ctx, doing, err)
	}
	next := ""
	if len(rows) > limit {
		rows = rows[:limit]
		next = cursor{stock.Epoch, int64(rows[limit-1].Seq)}.String()
	}
	page := make([]service.Order, len(rows))
	for i := range rows {
		page[i] = rows[i].order()
	}
	return page, next, nil
}

// page reads orders by number, those above after up to last.
func (m *MySQL) page(
	ctx context.Context, sku service.SKU, epoch uint64, after, last int64, limit int,
) (rows []orderRow, err error) {
	err = m.db.WithContext(ctx).
		Where("sku = ? AND epoch = ? AND seq > ? AND seq <= ?", string(sku), epoch, after, last).
		Order("seq").Limit(limit).Find(&rows).Error
	return rows, err
}

// outwait returns when every sale from a segment of sku that had drawn a number has ended. Such a sale has its
// segment's row locked; one that begins later draws a larger number. One row at a time: who waits for one must not keep
// others from theirs.
func (m *MySQL) outwait(ctx context.Context, sku service.SKU) error {
	var segments []int
	db := m.db.WithContext(ctx)
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
