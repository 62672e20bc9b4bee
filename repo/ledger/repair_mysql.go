package ledger

import (
	"context"
	"database/sql"
	"time"

	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

var _ order.Repairable = (*MySQL)(nil)

// Claims takes one round trip. Its pages read all orders, by id, because no index has the placed ones. The cursor is
// the last id of the page, for both tables.
func (l *MySQL) Claims(ctx context.Context, cursor string, limit int) (page []order.Claim, next string, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return nil, "", err
	}
	var placed, held []order.Claim
	var q statement
	q.Add(selectOrders+"id > ? AND state = ? ORDER BY id LIMIT ?", cursor, order.Placed, limit)
	q.next(selectReservations+"id > ? AND state = ? ORDER BY id LIMIT ?", cursor, order.Held, limit)
	err = l.read(ctx, "read who has units", "repair", &q, func(rows *sql.Rows) error {
		o, err := scanOrder(rows)
		if err == nil {
			placed = append(placed, o.Claim())
		}
		return err
	}, func(rows *sql.Rows) error {
		r, err := scanReservation(rows)
		if err == nil {
			held = append(held, order.Claim{ID: r.ID, Reserved: true, Lines: r.Lines})
		}
		return err
	})
	// The page ends, for both tables, where the table that has more ends: see Old.
	for _, claims := range [][]order.Claim{placed, held} {
		if n := len(claims); n == limit && (next == "" || claims[n-1].ID < next) {
			next = claims[n-1].ID
		}
	}
	if next != "" {
		inPage := func(c order.Claim) bool { return c.ID <= next }
		placed, held = upTo(placed, inPage), upTo(held, inPage)
	}
	return append(placed, held...), next, err
}

// Correct takes one transaction of two round trips. Like a step it locks the row of the SKU first.
func (l *MySQL) Correct(ctx context.Context, c order.Correction) error {
	const doing = "correct the books"
	sku := c.Movement.SKU
	leave, err := l.mysql.Enter(ctx, doing, repo.Writing(sku, 0))
	if err != nil {
		return err
	}
	defer leave()
	err = l.mysql.InTwo(ctx, doing, func(tx *gorm.DB) (*repo.Statement, error) {
		var q statement
		q.Add(repo.Begin)
		q.selectLevels([]service.SKU{sku})
		q.Add(" FOR UPDATE")
		q.next("SELECT COALESCE(MAX(number), 0) FROM movements WHERE sku = ?", string(sku))
		rows := map[service.SKU]levelRow{}
		var now time.Time
		var last uint64
		err := q.each(tx, scanLevels(rows, &now), func(rows *sql.Rows) error { return rows.Scan(&last) })
		if err != nil {
			return nil, err
		}
		row, there := rows[sku]
		if !there || row.Guard != order.Guard || row.level() != c.Was || last != c.Last {
			return nil, order.ErrMoved
		}
		m := c.Movement
		m.At = now
		var w statement
		w.Add("UPDATE stock SET quantity = ?, sold = ?, reserved = ?, adjusted = ?, number = ?, version = version + 1"+
			" WHERE sku = ?",
			c.Is.Available, c.Is.Sold, c.Is.Reserved, c.Is.Received-row.Initial, c.Is.Number, string(sku))
		w.writeMovements([]order.Movement{m})
		return &w.Statement, nil
	})
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		return order.ErrMoved
	}
	return err
}
