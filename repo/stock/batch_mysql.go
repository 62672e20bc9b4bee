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

// Batch takes two round trips for any number of orders. The first locks and reads the row, the second writes and
// commits, or is a ROLLBACK if nothing can be sold. So the row is locked for one round trip.
//
// Batch reads the row first, instead of changing it by a conditional UPDATE, because every order records the values
// that it read, and plan decides in this process which orders can be sold. An INSERT first and the UPDATE last would
// lock the row for less time, but orders.seq must be assigned while the row is locked: see migrations/00002_orders.sql.
//
// If the server refuses the INSERT because of one order, for example because its id exists, Batch writes each order
// in its own transaction, in the same sequence.
func (m *MySQL) Batch(ctx context.Context, orders []service.Order) ([]service.BatchResult, error) {
	const doing = "deduct in a batch"
	results, err := m.batch(ctx, doing, orders)
	if !repo.OfOneOrder(err) {
		return results, err
	}
	if len(orders) == 1 {
		return []service.BatchResult{{Order: orders[0], Err: err}}, nil
	}
	results = make([]service.BatchResult, 0, len(orders))
	for i := range orders {
		one, err := m.batch(ctx, doing, orders[i:i+1])
		if err != nil {
			one = []service.BatchResult{{Order: orders[i], Err: err}}
		}
		results = append(results, one[0])
	}
	return results, nil
}

// batch is the transaction of Batch.
func (m *MySQL) batch(
	ctx context.Context, doing string, orders []service.Order,
) (results []service.BatchResult, err error) {
	err = m.InTwoPackets(ctx, doing, func(tx *gorm.DB) (*repo.Statement, error) {
		row, now, err := lockRow(tx, orders[0].SKU)
		if err != nil {
			return nil, err
		}
		var sold []service.Order
		results, sold = plan(row, now, orders)
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

// lockRow begins a transaction, and locks and reads the row of sku. now is the server's time before the wait for the
// row.
func lockRow(tx *gorm.DB, sku service.SKU) (r stockRow, now time.Time, err error) {
	// A locking read returns the last committed row, and no snapshot was taken before it.
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
		err = unknownSKU(sku)
	}
	return r, now, cmp.Or(err, rows.Close())
}

// plan decides which orders are sold, one after the other, and computes the quantities that they read and leave. It
// checks the conditions in the same sequence as batch.lua.
func plan(
	row stockRow, now time.Time, orders []service.Order,
) (results []service.BatchResult, sold []service.Order) {
	results, sold = make([]service.BatchResult, len(orders)), make([]service.Order, 0, len(orders))
	for i, o := range orders {
		err := cmp.Or(row.refusal(cmp.Or(o.Epoch, row.Epoch), o.Strategy), checkFence(o.Fence, row.Fence))
		if err == nil && o.Quantity > row.Quantity {
			err = &service.SoldOutError{Remaining: row.Quantity}
		}
		if err == nil && !now.Before(writtenBy(o)) {
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

// sellAll returns the statements that write the orders which plan accepted. row is the row before the sales.
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

// idUntil is the id of an order, or NULL if it is too late to write the order. The column refuses NULL, so the INSERT
// fails and the transaction is rolled back. Settle relies on this refusal.
const idUntil = "(IF(? > UTC_TIMESTAMP(6), ?, NULL)"
