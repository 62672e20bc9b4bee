package ledger

import (
	"context"
	"database/sql"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

func (l *MySQL) Order(ctx context.Context, id string) (order.Order, error) {
	var q statement
	q.Add(selectOrders+"id = ?", id)
	found, err := l.orders(ctx, "read order", &q)
	switch {
	case err != nil:
		return order.Order{}, err
	case len(found) == 0:
		return order.Order{}, order.ErrNotFound
	}
	return found[0], nil
}

// Orders takes one round trip. A page misses an order whose transaction has not committed yet, even if it lists later
// orders of the same customer.
func (l *MySQL) Orders(
	ctx context.Context, customer, cursor string, limit int,
) (page []order.Order, next string, err error) {
	at, err := parsePlaceInOrders(cursor)
	if err == nil {
		err = repo.CheckLimit(limit)
	}
	if err != nil {
		return nil, "", err
	}
	var q statement
	q.Add(selectOrders+"customer = ?", customer)
	if at != firstOrders {
		before := time.UnixMicro(at.at).UTC()
		q.Add(" AND created_at <= ? AND (created_at < ? OR id < ?)", before, before, at.id)
	}
	// One more order than limit shows whether there is a next page.
	q.Add(" ORDER BY created_at DESC, id DESC LIMIT ?", limit+1)
	if page, err = l.orders(ctx, "read orders", &q); err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		page = page[:limit]
		next = placeOf(page[limit-1]).String()
	}
	return page, next, nil
}

func (l *MySQL) orders(ctx context.Context, doing string, q *statement) (all []order.Order, err error) {
	err = l.read(ctx, doing, "records", q, func(rows *sql.Rows) error {
		o, err := scanOrder(rows)
		if err == nil {
			all = append(all, *o)
		}
		return err
	})
	return all, err
}

// read sends a packet of SELECTs outside of a transaction.
func (l *MySQL) read(
	ctx context.Context, doing, key string, q *statement, results ...func(*sql.Rows) error,
) error {
	leave, err := l.mysql.Enter(ctx, doing, key)
	if err != nil {
		return err
	}
	defer leave()
	if err = q.each(l.mysql.On(ctx), results...); err != nil {
		err = l.mysql.ReadFault(ctx, doing, err)
	}
	l.mysql.CountAnswer(err)
	return err
}

func (l *MySQL) Reservation(ctx context.Context, id string) (found order.Reservation, err error) {
	var q statement
	q.Add(selectReservations+"id = ?", id)
	err = l.read(ctx, "read reservation", "records", &q, func(rows *sql.Rows) error {
		r, err := scanReservation(rows)
		if err == nil {
			found = *r
		}
		return err
	})
	if err == nil && found.ID == "" {
		err = order.ErrNotFound
	}
	return found, err
}

// Level takes one round trip. It fails with a GuardError for a SKU that a strategy guards, because it has no ledger.
func (l *MySQL) Level(ctx context.Context, sku service.SKU) (order.Level, error) {
	var q statement
	q.selectLevels([]service.SKU{sku})
	rows := map[service.SKU]levelRow{}
	var now time.Time
	if err := l.read(ctx, "read level", repo.Reading(sku), &q, scanLevels(rows, &now)); err != nil {
		return order.Level{}, err
	}
	row, there := rows[sku]
	switch {
	case !there:
		return order.Level{}, repo.UnknownSKU(sku)
	case row.Guard != "" && row.Guard != order.Guard:
		return order.Level{}, &service.GuardError{Guard: row.Guard}
	}
	return row.level(), nil
}

// Movements takes one round trip, or two if there are none.
func (l *MySQL) Movements(
	ctx context.Context, sku service.SKU, after uint64, limit int,
) (all []order.Movement, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	var q statement
	q.Add("SELECT sku, number, kind, received, available, reserved, sold, ref, customer, reason, at,"+
		" COALESCE(traceparent, '') FROM movements WHERE sku = ? AND number > ? ORDER BY number LIMIT ?",
		string(sku), after, limit)
	err = l.read(ctx, "read movements", repo.Reading(sku), &q, func(rows *sql.Rows) error {
		var m order.Movement
		err := rows.Scan(&m.SKU, &m.Number, &m.Kind, &m.Received, &m.Available, &m.Reserved, &m.Sold,
			&m.Ref, &m.Customer, &m.Reason, &m.At, &m.Traceparent)
		all = append(all, m)
		return err
	})
	if err == nil && len(all) == 0 {
		_, err = l.Level(ctx, sku) // fails if there is no such SKU
	}
	return all, err
}

// SetPolicy takes one round trip, or two if it is refused. It is idempotent, so a lost reply is lock.ErrDown.
func (l *MySQL) SetPolicy(ctx context.Context, sku service.SKU, perCustomer int64) error {
	if err := repo.CheckQuantity("per_customer", perCustomer); err != nil {
		return err
	}
	n, err := l.change(ctx, "set policy", repo.Writing(sku, 0),
		"UPDATE stock SET per_customer = ?, version = version + 1"+
			" WHERE sku = ? AND guard IN ('', ?)", perCustomer, string(sku), order.Guard)
	if err == nil && n == 0 {
		if _, err = l.Level(ctx, sku); err == nil {
			err = repo.ErrChanged
		}
	}
	return err
}

// change executes an idempotent statement that is its own transaction.
func (l *MySQL) change(ctx context.Context, doing, key, text string, args ...any) (int64, error) {
	leave, err := l.mysql.Enter(ctx, doing, key)
	if err != nil {
		return 0, err
	}
	defer leave()
	n, err := repo.Send(l.mysql.On(ctx), text, args...)
	if err != nil {
		err = l.mysql.ReadFault(ctx, doing, err)
	}
	l.mysql.CountAnswer(err)
	return n, err
}

// Due takes one round trip.
func (l *MySQL) Due(ctx context.Context, skip, limit int) (due []order.Reservation, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return nil, err
	}
	var q statement
	q.Add(selectReservations+"state = ? AND expires_at <= UTC_TIMESTAMP(6)"+
		" ORDER BY expires_at, id LIMIT ?, ?", order.Held, skip, limit)
	err = l.read(ctx, "look for what is due", "sweep", &q, func(rows *sql.Rows) error {
		r, err := scanReservation(rows)
		if r == nil {
			return err
		}
		due = append(due, *r)
		return nil
	})
	return due, err
}

// The interfaces of package order that MySQL implements.
var (
	_ order.Ledger  = (*MySQL)(nil)
	_ order.Records = (*MySQL)(nil)
	_ order.Book    = (*MySQL)(nil)
	_ order.Sweeper = (*MySQL)(nil)
)
