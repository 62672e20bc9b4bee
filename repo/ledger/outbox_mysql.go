package ledger

import (
	"context"
	"database/sql"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

var _ order.Outbox = (*MySQL)(nil)

// Behind takes one round trip. The server checks every SKU after the given one, until it has found limit SKUs; each
// check takes some 1 µs.
func (l *MySQL) Behind(ctx context.Context, after service.SKU, limit int) (all []order.Delivered, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	var q statement
	q.Add("SELECT s.sku, COALESCE(d.number, 0) FROM stock AS s LEFT JOIN deliveries AS d ON d.sku = s.sku"+
		" WHERE s.sku > ? AND s.number > COALESCE(d.number, 0) ORDER BY s.sku LIMIT ?", string(after), limit)
	err = l.read(ctx, "look for what is to be delivered", "outbox", &q, func(rows *sql.Rows) error {
		var d order.Delivered
		err := rows.Scan(&d.SKU, &d.Number)
		all = append(all, d)
		return err
	})
	return all, err
}

// Now takes one round trip.
func (l *MySQL) Now(ctx context.Context) (time.Time, error) { return l.mysql.Now(ctx) }

// Delivered takes one round trip, or two if it changes nothing. It is idempotent, so a lost reply is lock.ErrDown.
//
// The fence is assigned last, because MySQL evaluates an assignment with the new values of the columns to its left.
func (l *MySQL) Delivered(ctx context.Context, d order.Delivered, fence uint64) error {
	const doing = "record what was delivered"
	n, err := l.change(ctx, doing, "outbox", "INSERT INTO deliveries (sku, number, fence) VALUES (?, ?, ?)"+
		" ON DUPLICATE KEY UPDATE number = IF(fence <= VALUES(fence), GREATEST(number, VALUES(number)), number),"+
		" fence = GREATEST(fence, VALUES(fence))", string(d.SKU), d.Number, fence)
	if err != nil || n > 0 {
		return err
	}
	var seen uint64
	var q statement
	q.Add("SELECT fence FROM deliveries WHERE sku = ?", string(d.SKU))
	err = l.read(ctx, doing, "outbox", &q, func(rows *sql.Rows) error { return rows.Scan(&seen) })
	if err == nil && seen > fence {
		err = repo.StaleFence(seen)
	}
	return err
}
