package stock

import (
	"cmp"
	"context"
	"errors"
	"time"

	"gorm.io/gorm"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Batch is two round trips, however many orders there are: one locks the row and reads it, one writes and commits. The
// row is locked for the second. If nothing can be sold the second is a ROLLBACK.
//
// The row is read first, and not changed by a conditional UPDATE, because every order needs to know what it read, and
// which of them fit is then decided here. INSERT first and UPDATE last would lock the row for less, but orders.seq is
// promised to be drawn under the lock of the stock's row: see migrations/00002_orders.sql.
//
// If the INSERT is refused because of one order, whose id is taken, say, the transaction is rolled back and the orders
// are written singly, each in a transaction of its own and in the same order.
func (m *MySQL) Batch(ctx context.Context, version uint64, orders []service.Order) ([]service.BatchResult, error) {
	if len(orders) == 0 {
		return nil, nil
	}
	if err := checkBatch(orders); err != nil {
		return nil, err
	}
	const doing = "deduct in a batch"
	leave, err := m.Enter(ctx, doing, repo.Writing(orders[0].SKU, 0))
	if err != nil {
		return nil, err
	}
	defer leave()
	results, err := m.batch(ctx, doing, version, orders)
	if !repo.OfOneOrder(err) {
		return results, err
	}
	if len(orders) == 1 {
		return []service.BatchResult{{Order: orders[0], Err: err}}, nil
	}
	results = make([]service.BatchResult, 0, len(orders))
	for i := range orders {
		one, err := m.batch(ctx, doing, version, orders[i:i+1])
		if err != nil {
			one = []service.BatchResult{{Order: orders[i], Err: err}}
		} else if version != 0 && one[0].Err == nil {
			version++
		}
		results = append(results, one[0])
	}
	return results, nil
}

// batch is the transaction of Batch.
func (m *MySQL) batch(
	ctx context.Context, doing string, version uint64, orders []service.Order,
) (results []service.BatchResult, err error) {
	err = m.InTwo(ctx, doing, func(tx *gorm.DB) (*repo.Statement, error) {
		row, now, err := lockRow(tx, orders[0].SKU)
		if err != nil {
			return nil, err
		}
		var sold []service.Order
		results, sold = plan(row, now, version, orders)
		if len(sold) == 0 {
			return nil, repo.ErrNothing
		}
		return sellAll(row, sold), nil
	})
	switch {
	case errors.Is(err, repo.ErrNothing):
		return results, nil
	case err != nil:
		return nil, err
	}
	return results, nil
}

// lockRow begins a transaction and locks the row of a stock. It also returns the time by the server's clock, before the
// wait for the row.
func lockRow(tx *gorm.DB, sku service.SKU) (r stockRow, now time.Time, err error) {
	// No snapshot is taken before the row is locked: this reads what was committed last.
	rows, err := tx.Statement.ConnPool.QueryContext(tx.Statement.Context, repo.Begin+
		"SELECT quantity, version, epoch, fence, guard, UTC_TIMESTAMP(6) FROM stock"+
		" WHERE sku = ? FOR UPDATE", string(sku))
	if err != nil {
		return r, now, err
	}
	r.SKU = string(sku)
	if rows.Next() {
		err = rows.Scan(&r.Quantity, &r.Version, &r.Epoch, &r.Fence, &r.Guard, &now)
	} else if err = rows.Err(); err == nil {
		err = repo.UnknownSKU(sku)
	}
	return r, now, cmp.Or(err, rows.Close())
}

// plan makes the deductions on a copy of the row, one after the other. It checks the conditions of each in the same
// order as batch.lua.
func plan(
	row stockRow, now time.Time, version uint64, orders []service.Order,
) (results []service.BatchResult, sold []service.Order) {
	changed := version != 0 && version != row.Version
	results, sold = make([]service.BatchResult, len(orders)), make([]service.Order, 0, len(orders))
	for i, o := range orders {
		o.Remaining = 0
		var err error
		switch {
		case checkOrder(o) != nil:
			err = checkOrder(o)
		case o.Epoch != 0 && o.Epoch != row.Epoch:
			err = service.ErrStockReset
		case row.Guard != "" && row.Guard != o.Strategy:
			err = &service.GuardError{Guard: row.Guard}
		case repo.CheckFence(o.Fence, row.Fence) != nil:
			err = repo.CheckFence(o.Fence, row.Fence)
		case changed:
			err = service.ErrConflict
		case o.Quantity > row.Quantity:
			err = &service.SoldOutError{Remaining: row.Quantity}
		case !now.Before(writtenBy(o)):
			err = service.ErrSettled
		}
		if err != nil {
			results[i] = service.BatchResult{Order: orders[i], Err: err}
			continue
		}
		o.Read, o.Remaining, o.Version, o.Epoch = row.Quantity, row.Quantity-o.Quantity, row.Version, row.Epoch
		row.Quantity, row.Guard, row.Fence = o.Remaining, o.Strategy, max(row.Fence, o.Fence)
		row.Version++
		results[i].Order = o
		sold = append(sold, o)
	}
	return results, sold
}

// sellAll is what writes what plan has decided: the row was as in row, and is locked.
func sellAll(row stockRow, sold []service.Order) *repo.Statement {
	last, fence := sold[len(sold)-1], row.Fence
	for _, o := range sold {
		fence = max(fence, o.Fence)
	}
	s := &repo.Statement{Args: make([]any, 0, 8+16*len(sold))}
	s.Text.Grow(256 + len(insertOrders) + len(sold)*(len(idUntil)+len(orderValues)+2))
	// The row is locked, so it still has this epoch and version.
	s.Add("UPDATE stock SET quantity = ?, sold = sold + ?, version = ?, guard = ?, fence = ?"+
		" WHERE sku = ? AND epoch = ? AND version = ?; ",
		last.Remaining, row.Quantity-last.Remaining, last.Version+1, last.Strategy, fence,
		row.SKU, row.Epoch, row.Version)
	s.Add(insertOrders)
	for i, o := range sold {
		if i > 0 {
			s.Add(", ")
		}
		s.Add(idUntil, writtenBy(o).UTC(), o.ID)
		addOrder(s, o)
	}
	return s
}

// idUntil is the id of an order, and NULL when it is too late to write it: the column refuses that, and with the INSERT
// the UPDATE before it is undone. Settle relies on it.
const idUntil = "(IF(? > UTC_TIMESTAMP(6), ?, NULL)"
