package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

var _ order.Archivable = (*MySQL)(nil)

// lateID is how far the clock of an instance, which is in an id, may be ahead of the server's clock, which is in the
// row. Old does not read rows with later ids.
const lateID = 24 * time.Hour

const selectPart = "SELECT part, digest, previous, before_at, movements, orders, reservations, UTC_TIMESTAMP(6)" +
	" FROM archives ORDER BY part DESC LIMIT 1"

func scanPart(p *order.Part, now *time.Time) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		return rows.Scan(&p.Number, &p.Digest, &p.Previous, &p.Before, &p.Movements, &p.Orders, &p.Reservations, now)
	}
}

// Archived takes one round trip.
func (l *MySQL) Archived(ctx context.Context) (last order.Part, now time.Time, err error) {
	var q statement
	q.Add(selectPart)
	q.next("SELECT UTC_TIMESTAMP(6)")
	err = l.read(ctx, "read what was archived", "archive", &q, scanPart(&last, &now), func(rows *sql.Rows) error {
		return rows.Scan(&now)
	})
	return last, now, err
}

// Positions takes one round trip.
func (l *MySQL) Positions(
	ctx context.Context, cursor string, limit int,
) (page []order.Position, next string, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return nil, "", err
	}
	var q statement
	q.Add("SELECT s.sku, COALESCE(d.number, 0), COALESCE(d.fence, 0) FROM stock AS s"+
		" LEFT JOIN deliveries AS d ON d.sku = s.sku WHERE s.sku > ? AND s.guard = ? AND s.number > 0"+
		" ORDER BY s.sku LIMIT ?", cursor, order.Guard, limit)
	err = l.read(ctx, "read SKUs", "archive", &q, func(rows *sql.Rows) error {
		var s order.Position
		err := rows.Scan(&s.SKU, &s.Number, &s.Fence)
		page = append(page, s)
		return err
	})
	if len(page) == limit {
		next = string(page[limit-1].SKU)
	}
	return page, next, err
}

// Old takes one round trip. It reads orders and reservations in the order of their ids, and so by age, up to the ids of
// the time before plus lateID. The cursor is the last id of the page, for both tables.
func (l *MySQL) Old(
	ctx context.Context, before time.Time, cursor string, limit int,
) (page order.Old, next string, err error) {
	if err := repo.CheckLimit(limit); err != nil {
		return page, "", err
	}
	before = before.UTC()
	end := order.FirstID(before.Add(lateID))
	var q statement
	q.Add(selectOrders+"id > ? AND id < ? AND created_at < ? AND (canceled_at IS NULL OR canceled_at < ?)"+
		" ORDER BY id LIMIT ?", cursor, end, before, before, limit)
	q.next(selectReservations+"id > ? AND id < ? AND state <> ? AND created_at < ? AND ended_at < ?"+
		" ORDER BY id LIMIT ?", cursor, end, order.Held, before, before, limit)
	err = l.read(ctx, "read what is old", "archive", &q, func(rows *sql.Rows) error {
		o, err := scanOrder(rows)
		if err == nil {
			page.Orders = append(page.Orders, *o)
		}
		return err
	}, func(rows *sql.Rows) error {
		r, err := scanReservation(rows)
		if err == nil {
			page.Reservations = append(page.Reservations, *r)
		}
		return err
	})
	// If a table has returned limit rows, it may have more. Then the page ends, for both tables, with the last of these
	// rows.
	if n := len(page.Orders); n == limit {
		next = page.Orders[n-1].ID
	}
	if n := len(page.Reservations); n == limit && (next == "" || page.Reservations[n-1].ID < next) {
		next = page.Reservations[n-1].ID
	}
	if next != "" {
		page.Orders = upTo(page.Orders, func(o order.Order) bool { return o.ID <= next })
		page.Reservations = upTo(page.Reservations, func(r order.Reservation) bool { return r.ID <= next })
	}
	return page, next, err
}

// upTo returns the items before the first one for which in is false.
func upTo[T any](items []T, in func(T) bool) []T {
	for i, item := range items {
		if !in(item) {
			return items[:i]
		}
	}
	return items
}

// Present takes one round trip.
func (l *MySQL) Present(ctx context.Context, ids []string) (there []string, err error) {
	var q statement
	q.Add("SELECT id FROM customer_orders WHERE id IN ")
	in(&q, ids)
	q.Add(" UNION SELECT id FROM reservations WHERE id IN ")
	in(&q, ids)
	err = l.read(ctx, "look for what was archived", "archive", &q, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		there = append(there, id)
		return err
	})
	return there, err
}

// TakeAway takes one transaction of two round trips. Like a step it locks the stock rows of all its SKUs, sorted. So no
// step changes orders or reservations of these SKUs meanwhile, and a step that waits for these rows does not read
// records that are about to be removed. The rows stay locked while the server removes the part.
func (l *MySQL) TakeAway(ctx context.Context, t order.Taking) error {
	const doing = "take away what was archived"
	leave, err := l.mysql.Enter(ctx, doing, "archive")
	if err != nil {
		return err
	}
	defer leave()
	var refused error
	err = l.mysql.InTwo(ctx, doing, func(tx *gorm.DB) (*repo.Statement, error) {
		was, err := lockTaking(tx, t)
		if err != nil {
			return nil, err
		}
		if refused = was.refuse(t); refused != nil || was.last.Number == t.Part.Number {
			return nil, repo.ErrNothing
		}
		return &takeAwayMySQL(t).Statement, nil
	})
	switch {
	case errors.Is(err, repo.ErrNothing):
		return refused // nil: the part was already removed
	case mysqlerr.Number(err) == mysqlerr.DupEntry:
		return fmt.Errorf("%s: %w: %w", doing, order.ErrTaken, err) // another archiver was faster
	}
	return err
}

// A takingState is the current state of the records that an order.Taking removes.
type takingState struct {
	last   order.Part
	rows   map[service.SKU]uint64 // number of movements up to the number of the Carry
	sums   map[service.SKU]bool   // whether one of them is of kind order.Carried
	orders map[string]string      // as JSON, by id
	held   map[string]string      // reservations, likewise
}

// lockTaking locks the rows of the stock, and then reads, without locks, the records to be removed.
func lockTaking(tx *gorm.DB, t order.Taking) (takingState, error) {
	var q statement
	was := takingState{
		rows: map[service.SKU]uint64{}, sums: map[service.SKU]bool{}, orders: map[string]string{},
		held: map[string]string{},
	}
	q.Add(repo.Begin)
	q.selectLevels(t.SKUs())
	q.Add(" FOR UPDATE")
	q.next(selectPart)
	q.next(selectOrders + "id IN ")
	orders, reservations := t.IDs()
	in(&q, orders)
	q.next(selectReservations + "id IN ")
	in(&q, reservations)
	var now time.Time
	results := []func(*sql.Rows) error{
		func(*sql.Rows) error { return nil },
		scanPart(&was.last, &now),
		func(rows *sql.Rows) error {
			o, err := scanOrder(rows)
			if err == nil {
				was.orders[o.ID] = repo.Encode(o)
			}
			return err
		},
		func(rows *sql.Rows) error {
			r, err := scanReservation(rows)
			if err == nil {
				was.held[r.ID] = repo.Encode(r)
			}
			return err
		},
	}
	for _, c := range t.Carries {
		q.next("SELECT sku, COUNT(*), MAX(kind = ?) FROM movements WHERE sku = ? AND number <= ? GROUP BY sku",
			string(order.Carried), string(c.SKU), c.Number)
		results = append(results, func(rows *sql.Rows) error {
			var sku service.SKU
			var n uint64
			var sum bool
			err := rows.Scan(&sku, &n, &sum)
			was.rows[sku], was.sums[sku] = n, sum
			return err
		})
	}
	return was, q.each(tx, results...)
}

// refuse returns the reason why t may not be removed, or nil. Movements never change and their numbers have no gap,
// so the right number of rows proves that they are the archived ones.
func (was takingState) refuse(t order.Taking) error {
	if is, err := t.Part.Follows(was.last); is || err != nil {
		return err
	}
	for _, c := range t.Carries {
		want := c.Number - c.First + 1
		if c.First > 1 {
			want++ // the movement of kind order.Carried
		}
		if was.rows[c.SKU] != want || was.sums[c.SKU] != (c.First > 1) {
			return fmt.Errorf("movements of %s: %w", c.SKU, order.ErrMoved)
		}
	}
	for _, o := range t.Orders {
		if was.orders[o.ID] != repo.Encode(o) {
			return fmt.Errorf("order %s: %w", o.ID, order.ErrMoved)
		}
	}
	for _, r := range t.Reservations {
		if was.held[r.ID] != repo.Encode(r) {
			return fmt.Errorf("reservation %s: %w", r.ID, order.ErrMoved)
		}
	}
	return nil
}

// takeAwayMySQL returns the statements that remove t, by primary keys. The first one inserts the part, so if its
// number exists, nothing is removed.
func takeAwayMySQL(t order.Taking) *statement {
	s, p := &statement{}, t.Part
	s.Add("INSERT INTO archives (part, digest, previous, before_at, movements, orders, reservations, archived_at)"+
		" VALUES (?, ?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))",
		p.Number, p.Digest, p.Previous, p.Before.UTC(), p.Movements, p.Orders, p.Reservations)
	carried := make([]order.Movement, len(t.Carries))
	for i, c := range t.Carries {
		s.next("DELETE FROM movements WHERE sku = ? AND number <= ?", string(c.SKU), c.Number)
		carried[i] = c.Movement
	}
	s.writeMovements(carried)
	orders, reservations := t.IDs()
	if len(orders) > 0 {
		s.next("DELETE FROM customer_orders WHERE id IN ")
		in(s, orders)
	}
	if len(reservations) > 0 {
		s.next("DELETE FROM reservations WHERE id IN ")
		in(s, reservations)
	}
	return s
}
