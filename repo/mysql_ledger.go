package repo

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"

	"example.com/stock/mysqlerr"
	"example.com/stock/order"
	"example.com/stock/service"
)

// A MySQLLedger is the order.Ledger of a MySQL, and what belongs to it. Its stock is that of the MySQL. A step is one
// transaction.
//
// What a step locks first are the rows of its SKUs in stock, sorted, in one statement. Everything else that it writes
// belongs to one of these SKUs, and every writer of it has locked that row: the order, the reservation, what the
// customer has, the numbers of the movements. So these are read without locks, after the rows of the stock were locked,
// and steps with the same SKUs queue for one row instead of deadlocking over several. The idempotency key alone may be
// written by a step about other SKUs: it is inserted last, and its primary key decides.
//
// Round trips of Step, for any number of lines: 2, as those of a sale (see mysql_sale.go). The first locks the rows and
// reads, the second writes and commits, or is a ROLLBACK. The rows are locked for the second alone. A step about a key,
// an order or a reservation takes one more, before the transaction and without locks: for the SKUs of the order, and
// because a replay is then this one round trip. The first step of a SKU that it creates takes two more.
type MySQLLedger struct{ mysql *MySQL }

// Ledger returns the ledger of m. It shares m's connections and gates.
func (m *MySQL) Ledger() *MySQLLedger { return &MySQLLedger{m} }

// Step runs decide in a transaction. See MySQLLedger for its round trips. InnoDB may end a transaction to resolve a
// deadlock, with a transaction of another kind on the same server, say; then it is run again, five times at most.
//
// A wait for a row that reaches innodb_lock_wait_timeout, or five deadlocks, end with lock.ErrHeld: nothing was written.
func (l *MySQLLedger) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	for attempt := 1; ; attempt++ {
		var seen sight
		if about.Key.ID != "" || about.Order != "" || about.Reservation != "" {
			if seen, err = l.look(ctx, about); err != nil {
				return nil, false, err
			}
		}
		if seen.known != nil {
			return seen.known.replay(about.Key)
		}
		skus := reach(about, seen.order, seen.reservation)
		reply, err = l.step(ctx, about, skus, false, decide)
		if about.Create && errors.Is(err, service.ErrUnknownSKU) {
			reply, err = l.step(ctx, about, skus, true, decide)
		}
		if errors.Is(err, errKeyTaken) && attempt < attempts {
			continue
		}
		return reply, false, err
	}
}

// look reads, without locks, what the SKUs of a step depend on.
func (l *MySQLLedger) look(ctx context.Context, about order.About) (seen sight, err error) {
	key := "step"
	if len(about.SKUs) > 0 {
		key = reading(about.SKUs[0])
	}
	about.Customer = ""
	var q statement
	results := q.see(about, nil, &seen)
	err = l.read(ctx, "read for a step", key, &q, results...)
	return seen, err
}

// step is the transaction of Step. With create it makes the SKUs that are not there.
func (l *MySQLLedger) step(
	ctx context.Context, about order.About, skus []service.SKU, create bool,
	decide func(order.State) (order.Changes, error),
) (reply []byte, err error) {
	const doing = "step of the ledger"
	key := "step"
	if len(skus) > 0 {
		key = writing(skus[0], 0)
	}
	leave, err := l.mysql.enter(ctx, doing, key)
	if err != nil {
		return nil, err
	}
	defer leave()
	var refused error // why nothing is to be written; nil: there is nothing to write
	err = l.mysql.inTwo(ctx, doing, func(tx *gorm.DB) (write *statement, err error) {
		stock, seen, err := lockStep(tx, about, skus, create)
		if err != nil {
			return nil, err
		}
		var c order.Changes
		c, write, refused = runStep(about, stock, seen, decide)
		if reply = c.Reply; write == nil {
			return nil, errNothing
		}
		return write, nil
	})
	switch {
	case errors.Is(err, errNothing):
		return reply, refused
	case about.Key.ID != "" && mysqlerr.Number(err) == mysqlerr.DupEntry:
		// By a step about other SKUs, which is committed: otherwise the server would have waited for it.
		return nil, fmt.Errorf("%s: %w: %w", doing, errKeyTaken, err)
	case err != nil:
		return nil, err
	}
	return reply, nil
}

// runStep decides, and returns what writes the changes; nil if there are none, or the step is refused.
func runStep(
	about order.About, stock shelves, seen sight, decide func(order.State) (order.Changes, error),
) (none order.Changes, write *statement, refused error) {
	if seen.known != nil {
		return none, nil, errKeyTaken
	}
	for sku, taken := range seen.taken {
		stock[sku].Taken = taken
	}
	c, err := decide(order.State{
		Now: seen.now, Stock: stock.levels(), Order: seen.order, Reservation: seen.reservation,
	})
	if err != nil || empty(c) {
		return none, nil, err
	}
	p, err := stock.post(seen.now, c)
	if err != nil {
		return none, nil, err
	}
	return c, writeStep(about, stock, seen, p, c), nil
}

// lockStep begins the transaction, locks the rows of the stock in the order of their keys, and then reads all that the
// step depends on, in one packet. The server takes the snapshot of the transaction behind the locks: nothing that belongs
// to the locked rows is older.
//
// FORCE INDEX, because a server may otherwise read a small table from end to end, and lock all of it.
func lockStep(tx *gorm.DB, about order.About, skus []service.SKU, create bool) (stock shelves, seen sight, err error) {
	var q statement
	q.add(begin)
	if create {
		q.create(skus)
	}
	q.shelves(skus)
	q.add(" FOR UPDATE")
	rows := make(map[service.SKU]shelfRow, len(skus))
	results := []func(*sql.Rows) error{scanShelves(rows)}
	if err := q.each(tx, append(results, q.see(about, skus, &seen)...)...); err != nil {
		return nil, seen, err
	}
	if len(reach(about, seen.order, seen.reservation)) != len(skus) {
		return nil, seen, errChanged // it was made since, and is about SKUs that are not locked
	}
	stock = make(shelves, len(skus))
	for _, sku := range skus {
		if _, there := rows[sku]; !there {
			return nil, seen, unknownSKU(sku)
		}
	}
	for _, sku := range skus {
		row := rows[sku]
		if stock[sku], err = newShelf(row.stock(), row.level(), about.Fences[sku]); err != nil {
			return nil, seen, err
		}
	}
	return stock, seen, nil
}

// create makes rows for the SKUs that have none, and locks all of them. It is the first statement of its transaction:
// one that has looked for a row in vain, with FOR UPDATE, keeps others from making it until it ends, and two of these
// deadlock.
func (s *statement) create(skus []service.SKU) {
	s.add("INSERT INTO stock (sku, quantity, initial, sold, version, epoch, fence, guard) VALUES ")
	for i, sku := range skus {
		if i > 0 {
			s.add(", ")
		}
		s.add("(?, 0, 0, 0, 1, 1, 0, '')", string(sku))
	}
	s.add(" ON DUPLICATE KEY UPDATE sku = VALUES(sku); ")
}

// A shelfRow is a row of stock with what a ledger counts.
type shelfRow struct {
	stockRow
	reserved, adjusted, perCustomer int64
	number                          uint64
}

func (r shelfRow) level() order.Level {
	return order.Level{
		Received: r.Initial + r.adjusted, Available: r.Quantity, Reserved: r.reserved, Sold: r.Sold,
		Number: r.number, PerCustomer: r.perCustomer,
	}
}

// shelves is the SELECT of the rows of those SKUs, for scanShelves.
func (s *statement) shelves(skus []service.SKU) {
	s.add("SELECT sku, quantity, initial, sold, version, epoch, fence, guard," +
		" reserved, adjusted, per_customer, number FROM stock FORCE INDEX (PRIMARY) WHERE sku IN ")
	s.in(skus)
	s.add(" ORDER BY sku")
}

func scanShelves(into map[service.SKU]shelfRow) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var r shelfRow
		err := rows.Scan(&r.SKU, &r.Quantity, &r.Initial, &r.Sold, &r.Version, &r.Epoch, &r.Fence, &r.Guard,
			&r.reserved, &r.adjusted, &r.perCustomer, &r.number)
		into[service.SKU(r.SKU)] = r
		return err
	}
}

// in adds the SKUs as a list. SQL has no empty one.
func (s *statement) in(skus []service.SKU) {
	if len(skus) == 0 {
		s.add("(NULL)")
		return
	}
	s.add("(?" + strings.Repeat(", ?", len(skus)-1) + ")")
	for _, sku := range skus {
		s.args = append(s.args, string(sku))
	}
}

// each sends the packet, and calls a func for each row of each of its results, which are those of its SELECTs.
func (s *statement) each(db *gorm.DB, results ...func(*sql.Rows) error) error {
	rows, err := db.Statement.ConnPool.QueryContext(db.Statement.Context, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for i, do := range results {
		if i > 0 && !rows.NextResultSet() {
			return cmp.Or(rows.Err(), errNoResult)
		}
		for rows.Next() {
			if err := do(rows); err != nil {
				return err
			}
		}
	}
	return cmp.Or(rows.Err(), rows.Close())
}

// errNoResult cannot be: a SELECT has a result, or an error.
var errNoResult = errors.New("a statement has no result")

// A sight is what a step reads besides the stock.
type sight struct {
	now         time.Time // by the server's clock
	known       *known    // nil: the key is not known
	order       *order.Order
	reservation *order.Reservation
	taken       map[service.SKU]int64
}

// see adds the SELECTs of a sight, without locks, to a packet, and returns what reads their results. They are one for
// each table, all by primary key: as one SELECT with joins they would take the server longer.
func (s *statement) see(about order.About, skus []service.SKU, into *sight) (results []func(*sql.Rows) error) {
	ask := func(scan func(*sql.Rows) error, text string, args ...any) {
		s.next(text, args...)
		results = append(results, scan)
	}
	ask(func(rows *sql.Rows) error { return rows.Scan(&into.now) }, "SELECT UTC_TIMESTAMP(6)")
	if about.Key.ID != "" {
		ask(func(rows *sql.Rows) error {
			into.known = &known{}
			return rows.Scan(&into.known.Fingerprint, &into.known.Reply)
		}, "SELECT fingerprint, reply FROM idempotency_keys WHERE id = ?", about.Key.ID)
	}
	if about.Order != "" {
		ask(func(rows *sql.Rows) (err error) {
			into.order, err = scanOrder(rows)
			return err
		}, selectOrders+"id = ?", about.Order)
	}
	if about.Reservation != "" {
		ask(func(rows *sql.Rows) (err error) {
			into.reservation, err = scanReservation(rows)
			return err
		}, selectReservations+"id = ?", about.Reservation)
	}
	if about.Customer != "" && len(skus) > 0 {
		into.taken = make(map[service.SKU]int64, len(skus))
		ask(func(rows *sql.Rows) error {
			var sku service.SKU
			var taken int64
			err := rows.Scan(&sku, &taken)
			into.taken[sku] = taken
			return err
		}, "SELECT sku, taken FROM customer_limits WHERE customer = ? AND sku IN ", about.Customer)
		s.in(skus)
	}
	return results
}

// writeStep writes everything that a step changes, the stock first and the key last.
func writeStep(about order.About, stock shelves, seen sight, p posting, c order.Changes) *statement {
	s := &statement{}
	s.writeShelves(about, stock, p.moved)
	s.writeMovements(p.movements)
	s.writeTaken(p.taken)
	s.writeReservation(seen.reservation, c.Reservation)
	s.writeOrder(seen.order, c.Order)
	if about.Key.ID != "" && c.Reply != nil {
		s.next("INSERT INTO idempotency_keys (id, fingerprint, reply, created_at) VALUES (?, ?, ?, ?)",
			about.Key.ID, about.Key.Fingerprint, c.Reply, seen.now)
	}
	return s
}

// next begins another statement of the packet.
func (s *statement) next(text string, args ...any) {
	if s.text.Len() > 0 {
		s.add("; ")
	}
	s.add(text, args...)
}

// writeShelves writes the rows of stock as the step leaves them. They are there, and locked: the INSERT is a form of
// UPDATE that gives each row values of its own.
func (s *statement) writeShelves(about order.About, stock shelves, moved []service.SKU) {
	if len(moved) == 0 {
		return
	}
	s.next("INSERT INTO stock" +
		" (sku, quantity, initial, sold, version, epoch, fence, guard, reserved, adjusted, number) VALUES ")
	for i, sku := range moved {
		if i > 0 {
			s.add(", ")
		}
		at := stock[sku]
		s.add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(sku), at.Available, at.stock.Initial, at.Sold,
			at.stock.Version+1, at.stock.Epoch, max(at.stock.Fence, about.Fences[sku]), order.Guard,
			at.Reserved, at.Received-at.stock.Initial, at.Number)
	}
	s.add(" ON DUPLICATE KEY UPDATE quantity = VALUES(quantity), sold = VALUES(sold), version = VALUES(version)," +
		" fence = VALUES(fence), guard = VALUES(guard), reserved = VALUES(reserved), adjusted = VALUES(adjusted)," +
		" number = VALUES(number)")
}

func (s *statement) writeMovements(movements []order.Movement) {
	for i, m := range movements {
		if i == 0 {
			s.next("INSERT INTO movements" +
				" (sku, number, kind, received, available, reserved, sold, ref, customer, reason, at) VALUES ")
		} else {
			s.add(", ")
		}
		s.add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(m.SKU), m.Number, string(m.Kind),
			m.Received, m.Available, m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason, m.At)
	}
}

func (s *statement) writeTaken(taken []customerUnits) {
	for i, t := range taken {
		if i == 0 {
			s.next("INSERT INTO customer_limits (sku, customer, taken) VALUES ")
		} else {
			s.add(", ")
		}
		s.add("(?, ?, ?)", string(t.sku), t.customer, t.units)
	}
	if len(taken) > 0 {
		s.add(" ON DUPLICATE KEY UPDATE taken = taken + VALUES(taken)")
	}
}

// writeReservation writes r, new or in place of the one that was read.
func (s *statement) writeReservation(was, r *order.Reservation) {
	switch {
	case r == nil:
	case was != nil && was.ID == r.ID:
		s.next("UPDATE reservations SET state = ?, order_id = ?, expires_at = ?, ended_at = ? WHERE id = ?",
			r.State, r.Order, r.ExpiresAt.UTC(), utc(r.EndedAt), r.ID)
	default:
		s.next("INSERT INTO reservations"+
			" (id, customer, cart, state, order_id, expires_at, created_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			r.ID, r.Customer, encode(r.Lines), r.State, r.Order, r.ExpiresAt.UTC(), r.CreatedAt.UTC(), utc(r.EndedAt))
	}
}

// writeOrder writes o, new or in place of the one that was read.
func (s *statement) writeOrder(was, o *order.Order) {
	switch {
	case o == nil:
	case was != nil && was.ID == o.ID:
		s.next("UPDATE customer_orders SET state = ?, canceled_at = ? WHERE id = ?", o.State, utc(o.CanceledAt), o.ID)
	default:
		s.next("INSERT INTO customer_orders (id, customer, cart, state, reservation_id, late, created_at, canceled_at)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			o.ID, o.Customer, encode(o.Lines), o.State, o.Reservation, o.Late, o.CreatedAt.UTC(), utc(o.CanceledAt))
	}
}

// utc returns t for a column that may be NULL.
func utc(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC()
}

const (
	selectOrders = "SELECT id, customer, cart, state, reservation_id, late, created_at, canceled_at" +
		" FROM customer_orders WHERE "
	selectReservations = "SELECT id, customer, cart, state, order_id, expires_at, created_at, ended_at" +
		" FROM reservations WHERE "
)

// scanOrder reads a row of selectOrders.
func scanOrder(rows *sql.Rows) (*order.Order, error) {
	var o order.Order
	var cart []byte
	var canceled sql.NullTime
	err := rows.Scan(&o.ID, &o.Customer, &cart, &o.State, &o.Reservation, &o.Late, &o.CreatedAt, &canceled)
	if err != nil {
		return nil, err
	}
	o.CanceledAt = pointer(canceled)
	if o.Lines, err = decodeLines(cart); err != nil {
		return nil, fmt.Errorf("order %s: %w", o.ID, err)
	}
	return &o, nil
}

// scanReservation reads a row of selectReservations.
func scanReservation(rows *sql.Rows) (*order.Reservation, error) {
	var r order.Reservation
	var cart []byte
	var ended sql.NullTime
	err := rows.Scan(&r.ID, &r.Customer, &cart, &r.State, &r.Order, &r.ExpiresAt, &r.CreatedAt, &ended)
	if err != nil {
		return nil, err
	}
	r.EndedAt = pointer(ended)
	if r.Lines, err = decodeLines(cart); err != nil {
		return nil, fmt.Errorf("reservation %s: %w", r.ID, err)
	}
	return &r, nil
}

func pointer(t sql.NullTime) *time.Time {
	if !t.Valid {
		return nil
	}
	return &t.Time
}
