package repo

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/service"
)

// Set is six round trips, nine if the stock was in segments. The last of them looks for orders of earlier epochs that are older than KeepOrders,
// and removes them, up to 20000: they do not count and cannot be asked for. Whoever needs them for longer copies them.
func (m *MySQL) Set(ctx context.Context, sku service.SKU, quantity int64) (service.Stock, error) {
	stock, err := m.put(ctx, "set stock", sku, quantity, clause.OnConflict{
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
	_, err := m.put(ctx, "seed stock", sku, quantity, clause.OnConflict{DoNothing: true})
	return err
}

func (m *MySQL) put(ctx context.Context, doing string, sku service.SKU, quantity int64, exists clause.OnConflict) (service.Stock, error) {
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
		fresh := &stockRow{SKU: string(sku), Quantity: quantity, Initial: quantity, Version: 1, Epoch: 1}
		done := tx.Clauses(exists).Create(fresh)
		err := done.Error
		if err == nil && done.RowsAffected > 0 {
			err = unite(tx, sku)
		}
		if err == nil {
			row, err = take(tx, sku, unlocked)
		}
		return explain(ctx, doing, err)
	})
	return row.stock(), err
}

// Orders is two round trips. A cursor of an epoch that is over fails with service.ErrStockReset.
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
	stock, err := m.read(ctx, doing, sku)
	switch {
	case err != nil:
		return nil, "", err
	case at.epoch != 0 && at.epoch != stock.Epoch:
		return nil, "", service.ErrStockReset
	}
	var rows []orderRow
	// One more than asked for tells whether there is a next page.
	err = m.db.WithContext(ctx).Where("sku = ? AND epoch = ? AND seq > ?", string(sku), stock.Epoch, at.after).
		Order("seq").Limit(limit + 1).Find(&rows).Error
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
