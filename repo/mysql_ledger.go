package repo

import (
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
// Round trips of Step, for any number of lines: 5 (BEGIN; SELECT ... FOR UPDATE of the stock; SELECT of all else;
// UPDATE of the stock; INSERT of the movements) and COMMIT; one more for each of these that the step has: an order or
// reservation, units that count for a customer, a reply to be kept with a key. A step about a key, an order or a
// reservation reads that once more before the transaction: a replay is this one round trip, and locks nothing. So an
// order with a key and a customer is 10, of which 7 while the row is locked. A refusal is 4, and a ROLLBACK.
type MySQLLedger struct{ mysql *MySQL }

// Ledger returns the ledger of m. It shares m's connections and gates.
func (m *MySQL) Ledger() *MySQLLedger { return &MySQLLedger{m} }

// Step runs decide in a transaction. See MySQLLedger for its round trips. InnoDB may end a transaction to resolve a
// deadlock, with a transaction of another kind on the same server, say; then it is run again, five times at most.
//
// A wait for a row that reaches innodb_lock_wait_timeout, or five deadlocks, end with lock.ErrHeld: nothing was
// written.
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
func (l *MySQLLedger) look(ctx context.Context, about order.About) (sight, error) {
	const doing = "read for a step"
	key := "step"
	if len(about.SKUs) > 0 {
		key = reading(about.SKUs[0])
	}
	leave, err := l.mysql.enter(ctx, doing, key)
	if err != nil {
		return sight{}, err
	}
	defer leave()
	about.Customer = ""
	seen, err := see(l.mysql.db.WithContext(ctx), about, nil)
	if err != nil {
		err = l.mysql.readFault(ctx, doing, err)
	}
	l.mysql.countAnswer(err)
	return seen, err
}

// step is the transaction of Step.
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
	err = l.mysql.transact(ctx, doing, func(tx *gorm.DB) (err error) {
		var c order.Changes
		if create {
			err = createShelves(tx, skus)
		}
		if err == nil {
			c, err = runStep(tx, about, skus, decide)
		}
		reply = c.Reply
		if errors.As(err, new(decided)) || errors.Is(err, errKeyTaken) {
			return err
		}
		return explain(ctx, doing, err)
	})
	var own decided
	switch {
	case errors.Is(err, errNothing):
		return reply, nil
	case errors.As(err, &own):
		return nil, own.error
	case err != nil:
		return nil, err
	}
	return reply, nil
}

func runStep(
	tx *gorm.DB, about order.About, skus []service.SKU, decide func(order.State) (order.Changes, error),
) (none order.Changes, err error) {
	stock, err := lockShelves(tx, about, skus)
	if err != nil {
		return none, err
	}
	seen, err := see(tx, about, skus)
	switch {
	case err != nil:
		return none, err
	case seen.known != nil:
		return none, errKeyTaken
	case len(reach(about, seen.order, seen.reservation)) != len(skus):
		return none, errChanged // it was made since, and is about SKUs that are not locked
	}
	for sku, taken := range seen.taken {
		stock[sku].Taken = taken
	}
	c, err := decide(order.State{
		Now: seen.now, Stock: stock.levels(), Order: seen.order, Reservation: seen.reservation,
	})
	if err != nil {
		return none, decided{err}
	}
	if empty(c) {
		return c, errNothing
	}
	p, err := stock.post(seen.now, c)
	if err != nil {
		return none, decided{err}
	}
	return c, writeStep(tx, about, stock, seen, p, c)
}

// lockShelves locks the rows of the stock in the order of their keys, and reads them. FORCE INDEX, because a server may
// otherwise read a small table from end to end, and lock all of it.
func lockShelves(tx *gorm.DB, about order.About, skus []service.SKU) (shelves, error) {
	stock := make(shelves, len(skus))
	if len(skus) == 0 {
		return stock, nil
	}
	rows, err := readShelves(tx, skus, locked)
	if err != nil {
		return nil, err
	}
	for _, sku := range skus {
		row, there := rows[sku]
		if !there {
			return nil, unknownSKU(sku)
		}
		if stock[sku], err = newShelf(row.stock(), row.level(), about.Fences[sku]); err != nil {
			return nil, err
		}
	}
	return stock, nil
}

// createShelves makes rows for the SKUs that have none, and locks all of them. It is the first statement of its
// transaction: one that has looked for a row in vain, with FOR UPDATE, keeps others from making it until it ends, and
// two of these deadlock.
func createShelves(tx *gorm.DB, skus []service.SKU) error {
	var s statement
	s.add("INSERT INTO stock (sku, quantity, initial, sold, version, epoch, fence, guard) VALUES ")
	for i, sku := range skus {
		if i > 0 {
			s.add(", ")
		}
		s.add("(?, 0, 0, 0, 1, 1, 0, '')", string(sku))
	}
	s.add(" ON DUPLICATE KEY UPDATE sku = VALUES(sku)")
	_, err := send(tx, s.text.String(), s.args...)
	return err
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

// readShelves reads the rows of stock of those SKUs.
func readShelves(tx *gorm.DB, skus []service.SKU, locking string) (map[service.SKU]shelfRow, error) {
	var s statement
	s.add("SELECT sku, quantity, initial, sold, version, epoch, fence, guard," +
		" reserved, adjusted, per_customer, number FROM stock FORCE INDEX (PRIMARY) WHERE sku IN ")
	s.in(skus)
	s.add(" ORDER BY sku" + locking)
	found := make(map[service.SKU]shelfRow, len(skus))
	err := s.each(tx, func(rows *sql.Rows) error {
		var r shelfRow
		err := rows.Scan(&r.SKU, &r.Quantity, &r.Initial, &r.Sold, &r.Version, &r.Epoch, &r.Fence, &r.Guard,
			&r.reserved, &r.adjusted, &r.perCustomer, &r.number)
		found[service.SKU(r.SKU)] = r
		return err
	})
	return found, err
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

// each calls do for each row that the statement returns.
func (s *statement) each(db *gorm.DB, do func(*sql.Rows) error) error {
	rows, err := db.Statement.ConnPool.QueryContext(db.Statement.Context, s.text.String(), s.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// A sight is what a step reads besides the stock.
type sight struct {
	now         time.Time // by the server's clock
	known       *known    // nil: the key is not known
	order       *order.Order
	reservation *order.Reservation
	taken       map[service.SKU]int64
}

// see reads all of a sight in one statement, without locks. In a transaction the server takes its snapshot here: after
// the rows of the stock were locked, so that nothing that belongs to them is older.
func see(db *gorm.DB, about order.About, skus []service.SKU) (s sight, err error) {
	var q statement
	q.add("SELECT UTC_TIMESTAMP(6), k.fingerprint, k.reply, "+orderColumns+", "+reservationColumns+", c.sku, c.taken"+
		" FROM (SELECT 1) AS one"+
		" LEFT JOIN idempotency_keys AS k ON k.id = ?"+
		" LEFT JOIN customer_orders AS o ON o.id = ?"+
		" LEFT JOIN reservations AS r ON r.id = ?"+
		" LEFT JOIN customer_limits AS c ON c.customer = ? AND c.sku IN ",
		about.Key.ID, about.Order, about.Reservation, about.Customer)
	q.in(skus)
	s.taken = make(map[service.SKU]int64, len(skus))
	err = q.each(db, func(rows *sql.Rows) (err error) {
		var fingerprint, sku sql.NullString
		var reply []byte
		var taken sql.NullInt64
		var o orderScan
		var r reservationScan
		into := append([]any{&s.now, &fingerprint, &reply}, o.into()...)
		into = append(append(into, r.into()...), &sku, &taken)
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if fingerprint.Valid {
			s.known = &known{fingerprint.String, reply}
		}
		if sku.Valid {
			s.taken[service.SKU(sku.String)] = taken.Int64
		}
		if s.order, err = o.order(); err != nil {
			return err
		}
		s.reservation, err = r.reservation()
		return err
	})
	return s, err
}

// writeStep writes everything that a step changes, the stock first and the key last.
func writeStep(
	tx *gorm.DB, about order.About, stock shelves, seen sight, p posting, c order.Changes,
) error {
	for _, write := range []func() error{
		func() error { return writeShelves(tx, about, stock, p.moved) },
		func() error { return writeMovements(tx, p.movements) },
		func() error { return writeTaken(tx, p.taken) },
		func() error { return writeReservation(tx, seen.reservation, c.Reservation) },
		func() error { return writeOrder(tx, seen.order, c.Order) },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	if about.Key.ID == "" || c.Reply == nil {
		return nil
	}
	_, err := send(tx, "INSERT INTO idempotency_keys (id, fingerprint, reply, created_at) VALUES (?, ?, ?, ?)",
		about.Key.ID, about.Key.Fingerprint, c.Reply, seen.now)
	if mysqlerr.Number(err) == mysqlerr.DupEntry {
		return errKeyTaken // by a step about other SKUs. It is committed: otherwise the server would have waited for it
	}
	return err
}

// writeShelves writes the rows of stock as the step leaves them. They are there, and locked: the INSERT is a form of
// UPDATE that gives each row values of its own.
func writeShelves(tx *gorm.DB, about order.About, stock shelves, moved []service.SKU) error {
	if len(moved) == 0 {
		return nil
	}
	var s statement
	s.add("INSERT INTO stock (sku, quantity, initial, sold, version, epoch, fence, guard, reserved, adjusted, number)" +
		" VALUES ")
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
	_, err := send(tx, s.text.String(), s.args...)
	return err
}

func writeMovements(tx *gorm.DB, movements []order.Movement) error {
	if len(movements) == 0 {
		return nil
	}
	var s statement
	s.add("INSERT INTO movements" +
		" (sku, number, kind, received, available, reserved, sold, ref, customer, reason, at) VALUES ")
	for i, m := range movements {
		if i > 0 {
			s.add(", ")
		}
		s.add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(m.SKU), m.Number, string(m.Kind),
			m.Received, m.Available, m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason, m.At)
	}
	_, err := send(tx, s.text.String(), s.args...)
	return err
}

func writeTaken(tx *gorm.DB, taken []customerUnits) error {
	if len(taken) == 0 {
		return nil
	}
	var s statement
	s.add("INSERT INTO customer_limits (sku, customer, taken) VALUES ")
	for i, t := range taken {
		if i > 0 {
			s.add(", ")
		}
		s.add("(?, ?, ?)", string(t.sku), t.customer, t.units)
	}
	s.add(" ON DUPLICATE KEY UPDATE taken = taken + VALUES(taken)")
	_, err := send(tx, s.text.String(), s.args...)
	return err
}

// writeReservation writes r, new or in place of the one that was read.
func writeReservation(tx *gorm.DB, was, r *order.Reservation) error {
	switch {
	case r == nil:
		return nil
	case was != nil && was.ID == r.ID:
		_, err := send(tx, "UPDATE reservations SET state = ?, order_id = ?, expires_at = ?, ended_at = ? WHERE id = ?",
			r.State, r.Order, r.ExpiresAt.UTC(), utc(r.EndedAt), r.ID)
		return err
	}
	_, err := send(tx, "INSERT INTO reservations"+
		" (id, customer, cart, state, order_id, expires_at, created_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		r.ID, r.Customer, encode(r.Lines), r.State, r.Order, r.ExpiresAt.UTC(), r.CreatedAt.UTC(), utc(r.EndedAt))
	return err
}

// writeOrder writes o, new or in place of the one that was read.
func writeOrder(tx *gorm.DB, was, o *order.Order) error {
	switch {
	case o == nil:
		return nil
	case was != nil && was.ID == o.ID:
		_, err := send(tx, "UPDATE customer_orders SET state = ?, canceled_at = ? WHERE id = ?",
			o.State, utc(o.CanceledAt), o.ID)
		return err
	}
	_, err := send(tx, "INSERT INTO customer_orders"+
		" (id, customer, cart, state, reservation_id, late, created_at, canceled_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
		o.ID, o.Customer, encode(o.Lines), o.State, o.Reservation, o.Late, o.CreatedAt.UTC(), utc(o.CanceledAt))
	return err
}

// utc returns t for a column that may be NULL.
func utc(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC()
}

const (
	orderColumns       = "o.id, o.customer, o.cart, o.state, o.reservation_id, o.late, o.created_at, o.canceled_at"
	reservationColumns = "r.id, r.customer, r.cart, r.state, r.order_id, r.expires_at, r.created_at, r.ended_at"
)

// An orderScan reads orderColumns, of which all are NULL if there is no order.
type orderScan struct {
	id, customer, state, reservationID sql.NullString
	cart                               []byte
	late                               sql.NullBool
	created, canceled                  sql.NullTime
}

func (s *orderScan) into() []any {
	return []any{&s.id, &s.customer, &s.cart, &s.state, &s.reservationID, &s.late, &s.created, &s.canceled}
}

func (s *orderScan) order() (*order.Order, error) {
	if !s.id.Valid {
		return nil, nil
	}
	lines, err := decodeLines(s.cart)
	if err != nil {
		return nil, fmt.Errorf("order %s: %w", s.id.String, err)
	}
	return &order.Order{
		ID: s.id.String, Customer: s.customer.String, Lines: lines, State: s.state.String,
		Reservation: s.reservationID.String, Late: s.late.Bool,
		CreatedAt: s.created.Time, CanceledAt: pointer(s.canceled),
	}, nil
}

// A reservationScan reads reservationColumns, of which all are NULL if there is no reservation.
type reservationScan struct {
	id, customer, state, orderID sql.NullString
	cart                         []byte
	expires, created, ended      sql.NullTime
}

func (s *reservationScan) into() []any {
	return []any{&s.id, &s.customer, &s.cart, &s.state, &s.orderID, &s.expires, &s.created, &s.ended}
}

func (s *reservationScan) reservation() (*order.Reservation, error) {
	if !s.id.Valid {
		return nil, nil
	}
	lines, err := decodeLines(s.cart)
	if err != nil {
		return nil, fmt.Errorf("reservation %s: %w", s.id.String, err)
	}
	return &order.Reservation{
		ID: s.id.String, Customer: s.customer.String, Lines: lines, State: s.state.String,
		ExpiresAt: s.expires.Time, CreatedAt: s.created.Time, EndedAt: pointer(s.ended), Order: s.orderID.String,
	}, nil
}

func pointer(t sql.NullTime) *time.Time {
	if !t.Valid {
		return nil
	}
	return &t.Time
}
