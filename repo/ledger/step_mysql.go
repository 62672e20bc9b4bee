package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A MySQL is the order.Ledger in MySQL or MariaDB. It shares the table stock with the demonstration's store. A step
// is one transaction.
//
// A step first locks the rows of its SKUs in stock, sorted, in one statement. The order, the reservation, the
// customer's units and the movements that it writes belong to these SKUs, and everything that writes them locks these
// rows first. So the step reads these records without locks, after the rows are locked, and steps with the same SKUs
// queue for one row instead of deadlocking over several. Only the same idempotency key may be written by two steps
// about different SKUs. It is inserted last, and its primary key admits only one of the steps.
//
// A step with a Holder also locks the customer's row in customer_locks, in the same packet and after the stock. Only
// such steps add to what a customer holds, so the step reads the sum without locks, too.
//
// Batch does the same for many steps: one statement locks the rows of all steps, and one statement for each table
// writes the changes of all steps. Each step sees the changes of the steps before it: see pendingWrite.
//
// Step and Batch take two round trips for any number of lines and steps: see repo.MySQL.InTwo. The first locks the rows
// and reads, the second writes and commits, or is a ROLLBACK. So the rows are locked for one round trip. These cases
// take more round trips:
//
//   - a Step about an order or a reservation: one, before the transaction and without locks, for the SKUs of the
//     order
//   - the first step of a SKU that it creates: two
//   - a step whose idempotency key exists: five in all. Keys are not read first, because a SELECT under the lock
//     would
//     slow down every sale. The INSERT finds the key, and the transaction runs again and reads it.
//   - a refused step with a key: one, without locks, because it may repeat a step that succeeded
//   - this process's first step about a customer of a SKU with a limit: one, under the lock
type MySQL struct {
	mysql   *repo.MySQL
	seed    maphash.Seed
	limited [1 << 14]atomic.Bool // see hasLimit
}

func NewMySQL(m *repo.MySQL) *MySQL { return &MySQL{mysql: m, seed: maphash.MakeSeed()} }

// A statement is a packet of one or more SQL statements.
type statement struct{ repo.Statement }

// Step calls decide in a transaction. See MySQL for its round trips. If InnoDB rolls the transaction back to resolve
// a deadlock, Step runs it again, up to repo.Attempts (5) times in all, so decide may be called more than once.
//
// Step fails with lock.ErrHeld after it has waited innodb_lock_wait_timeout for a row, or after the last deadlock.
// Then nothing was written.
func (l *MySQL) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	named := about.SKUs
	var how access
	for attempt := 1; ; attempt++ {
		if about.Order != "" || about.Reservation != "" {
			s := scopeOf([]order.Request{{About: about}})
			s.customers, s.holders = nil, nil
			seen, err := l.look(ctx, s)
			if err != nil {
				return nil, false, err
			}
			if known := seen.keys[about.Key.ID]; known != nil {
				return known.replay(about.Key)
			}
			about.SKUs = named
			about.SKUs = skusOf(about, seen.orders[about.Order], seen.reservations[about.Reservation])
		}
		one := []order.Request{{About: about, Decide: decide}}
		outcomes, err := l.batch(ctx, one, how)
		if about.Create && err == nil && errors.Is(outcomes[0].Err, service.ErrUnknownSKU) {
			outcomes, err = l.batch(ctx, one, access{keys: true, create: true})
		}
		if err != nil {
			outcomes = []order.StepResult{{Err: err}}
		}
		err = outcomes[0].Err
		how.keys = how.keys || errors.Is(err, errKeyTaken)
		if attempt < repo.Attempts && (errors.Is(err, errElsewhere) || errors.Is(err, errKeyTaken)) {
			continue
		}
		return outcomes[0].Reply, outcomes[0].Replayed, err
	}
}

// Batch makes the steps in one transaction. See MySQL for its round trips. If the server refuses the write because of
// one step, Batch makes each step in its own transaction.
func (l *MySQL) Batch(ctx context.Context, steps []order.Request) []order.StepResult {
	outcomes, err := l.batch(ctx, steps, access{})
	if errors.Is(err, errKeyTaken) {
		outcomes, err = l.batch(ctx, steps, access{keys: true})
	}
	if err != nil {
		outcomes = make([]order.StepResult, len(steps))
	}
	for i := range steps {
		switch {
		case err != nil && !repo.OfOneOrder(err) && !errors.Is(err, repo.ErrDamaged):
			outcomes[i].Err = err
		case err != nil, errors.Is(outcomes[i].Err, errElsewhere):
			outcomes[i] = outcomeOf(l.Step(ctx, steps[i].About, steps[i].Decide))
		}
	}
	return outcomes
}

// look reads the records of s, except the stock, without locks.
func (l *MySQL) look(ctx context.Context, s scope) (*pendingWrite, error) {
	var q statement
	seen := newPendingWrite()
	results := q.see(s, seen)
	return seen, l.read(ctx, "read for a step", "step", &q, results...)
}

// access has the options of a transaction.
type access struct {
	keys   bool // read the idempotency keys; otherwise a key that exists ends the transaction with errKeyTaken
	create bool // create the SKUs that do not exist
}

// batch is the transaction of Step and Batch. If batch returns an error, all steps have failed with this error.
func (l *MySQL) batch(
	ctx context.Context, steps []order.Request, how access,
) (outcomes []order.StepResult, err error) {
	const doing = "step of the ledger"
	s := scopeOf(steps)
	key := "step"
	if len(s.skus) > 0 {
		key = repo.Writing(s.skus[0], 0)
	}
	leave, err := l.mysql.Enter(ctx, doing, key)
	if err != nil {
		return nil, err
	}
	defer func() {
		if leave(); err == nil && !how.keys {
			l.recall(ctx, steps, outcomes)
		}
	}()
	err = l.mysql.InTwo(ctx, doing, func(tx *gorm.DB) (*repo.Statement, error) {
		p, err := l.lockSteps(tx, s, how)
		if err != nil {
			return nil, err
		}
		if outcomes = p.all(steps); p.unchanged() {
			return nil, repo.ErrNothing
		}
		return &p.writeMySQL().Statement, nil
	})
	switch {
	case errors.Is(err, repo.ErrNothing):
		return outcomes, nil
	case len(s.keys) > 0 && mysqlerr.Number(err) == mysqlerr.DupEntry:
		// The transaction that has inserted the key is committed, because otherwise the server would have waited for
		// its end.
		return nil, fmt.Errorf("%s: %w: %w", doing, errKeyTaken, err)
	case err != nil:
		return nil, err
	}
	return outcomes, nil
}

// recall reads the idempotency keys of the refused steps. If a key exists, the step is a repetition, and gets the
// stored reply. Keys that a step of this batch has just inserted are not read.
func (l *MySQL) recall(ctx context.Context, steps []order.Request, outcomes []order.StepResult) {
	made := map[string]bool{}
	for i, out := range outcomes {
		key := steps[i].About.Key.ID
		made[key] = made[key] || out.Err == nil || key == ""
	}
	maps.DeleteFunc(made, func(_ string, so bool) bool { return so })
	if len(made) == 0 {
		return
	}
	seen, err := l.look(ctx, scope{keys: slices.Sorted(maps.Keys(made))})
	for i := range outcomes {
		key := steps[i].About.Key
		if _, refused := made[key.ID]; refused && err != nil {
			outcomes[i].Err = err // replaces the refusal, because the step may be a repeat
		} else if k := seen.keys[key.ID]; refused && k != nil {
			outcomes[i] = outcomeOf(k.replay(key))
		}
	}
}

// lockSteps sends one packet that begins the transaction, locks the rows of the stock and then those of the holders,
// each in the order of their keys, and reads what the steps depend on. The server takes the snapshot of the transaction
// after it has locked the rows, so what is read of the locked SKUs and customers is current.
func (l *MySQL) lockSteps(tx *gorm.DB, s scope, how access) (*pendingWrite, error) {
	var q statement
	q.Add(repo.Begin)
	if how.create {
		q.create(s.skus)
	}
	q.selectLevels(s.skus)
	q.Add(" FOR UPDATE")
	rows := make(map[service.SKU]levelRow, len(s.skus))
	p := newPendingWrite()
	locked := []func(*sql.Rows) error{scanLevels(rows, &p.now)}
	if len(s.holders) > 0 {
		q.lockCustomers(s.holders)
		locked = append(locked, func(*sql.Rows) error { return nil })
	}
	if !how.keys {
		s.keys = nil
	}
	customers := slices.Clone(s.customers)
	s.customers = slices.DeleteFunc(s.customers, func(c customerOf) bool { return !l.hasLimit(c.sku).Load() })
	send := q.each
	if l.mysql.Apart() {
		send = q.apart
	}
	if err := send(tx, append(locked, q.see(s, p)...)...); err != nil {
		return nil, err
	}
	for _, sku := range s.skus {
		p.stock[sku] = &stockLevel{}
		if row, there := rows[sku]; there {
			p.stock[sku] = newStockLevel(row.Stock, row.level())
			l.hasLimit(sku).Store(row.perCustomer > 0)
		}
	}
	customers = slices.DeleteFunc(customers, func(c customerOf) bool {
		return rows[c.sku].perCustomer == 0 || slices.Contains(s.customers, c)
	})
	if len(customers) > 0 {
		var more statement
		return p, more.each(tx, more.see(scope{customers: customers}, p)...)
	}
	return p, nil
}

// hasLimit returns a guess whether a SKU has a limit for each customer: the value that was last read for a SKU with the
// same hash. A right guess saves a round trip; a wrong one costs a round trip, or an unneeded SELECT.
func (l *MySQL) hasLimit(sku service.SKU) *atomic.Bool {
	return &l.limited[maphash.String(l.seed, string(sku))%uint64(len(l.limited))]
}

// create inserts the missing rows of skus, and locks all rows. It must be the first statement of its transaction: a
// SELECT ... FOR UPDATE that finds no row locks the gap, and two such transactions deadlock when both insert.
func (s *statement) create(skus []service.SKU) {
	s.Add("INSERT INTO stock (sku, quantity, initial, sold, version, epoch, fence, guard) VALUES ")
	for i, sku := range skus {
		if i > 0 {
			s.Add(", ")
		}
		s.Add("(?, 0, 0, 0, 1, 1, 0, '')", string(sku))
	}
	s.Add(" ON DUPLICATE KEY UPDATE sku = VALUES(sku); ")
}

// customerSlots is the number of rows of customer_locks. Two customers who share a row only wait for each other.
const customerSlots = 1 << 14

// lockCustomers adds the lock of the customers' rows. All instances must find the same row for a customer.
func (s *statement) lockCustomers(customers []string) {
	slots := make([]string, len(customers))
	for i, customer := range customers {
		slot := fnv.New32a()
		slot.Write([]byte(customer))
		slots[i] = fmt.Sprint(slot.Sum32() % customerSlots)
	}
	s.next("SELECT slot FROM customer_locks FORCE INDEX (PRIMARY) WHERE slot IN (" + strings.Join(slots, ", ") +
		") ORDER BY slot FOR UPDATE")
}

type levelRow struct {
	service.Stock
	reserved, adjusted, perCustomer int64
	number                          uint64
}

func (r levelRow) level() order.Level {
	return order.Level{
		Received: r.Initial + r.adjusted, Available: r.Quantity, Reserved: r.reserved, Sold: r.Sold,
		Number: r.number, PerCustomer: r.perCustomer,
	}
}

// selectLevels adds the SELECT of the rows of skus, for scanLevels. SYSDATE is the time, in UTC, when the row is
// read, which is after it was locked; UTC_TIMESTAMP would be the time when the statement began. FORCE INDEX keeps the
// server from scanning a small table, which would lock all its rows.
func (s *statement) selectLevels(skus []service.SKU) {
	s.Add("SELECT sku, quantity, initial, sold, version, epoch, fence, guard," +
		" reserved, adjusted, per_customer, number, SYSDATE(6) FROM stock FORCE INDEX (PRIMARY) WHERE sku IN ")
	in(s, skus)
	s.Add(" ORDER BY sku")
}

// scanLevels scans the rows of selectLevels. It sets now to the time of the last row.
func scanLevels(into map[service.SKU]levelRow, now *time.Time) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var r levelRow
		err := rows.Scan(&r.SKU, &r.Quantity, &r.Initial, &r.Sold, &r.Version, &r.Epoch, &r.Fence, &r.Guard,
			&r.reserved, &r.adjusted, &r.perCustomer, &r.number, now)
		into[r.SKU] = r
		return err
	}
}

// in adds texts as the list of an IN. SQL has no empty list, so in then adds (NULL).
func in[T ~string](s *statement, texts []T) {
	if len(texts) == 0 {
		s.Add("(NULL)")
		return
	}
	s.Add("(?" + strings.Repeat(", ?", len(texts)-1) + ")")
	for _, text := range texts {
		s.Args = append(s.Args, string(text))
	}
}

// each sends the packet. It calls results[i] for each row of the packet's i-th SELECT.
func (s *statement) each(db *gorm.DB, results ...func(*sql.Rows) error) error {
	rows, err := db.Statement.ConnPool.QueryContext(db.Statement.Context, s.Text.String(), s.Args...)
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

// apart is each, with a packet for each statement: see [repo.MySQL.Apart].
func (s *statement) apart(db *gorm.DB, results ...func(*sql.Rows) error) error {
	return s.Apart(func(text string, args []any) error {
		if !strings.HasPrefix(text, "SELECT") {
			_, err := repo.Send(db, text, args...)
			return err
		}
		var one statement
		one.Add(text, args...)
		scan := results[0]
		results = results[1:]
		return one.each(db, scan)
	})
}

// errNoResult is never returned, because a SELECT has a result or an error.
var errNoResult = errors.New("a statement has no result")

// see adds SELECTs, without locks, of all records in of, except the stock. It returns the functions that scan the
// results into into; pass them to each. There is one SELECT for each table, by primary key, because one SELECT with
// joins would take the server longer.
func (s *statement) see(of scope, into *pendingWrite) (results []func(*sql.Rows) error) {
	ask := func(scan func(*sql.Rows) error, text string) {
		s.next(text)
		results = append(results, scan)
	}
	if len(of.keys) > 0 {
		ask(func(rows *sql.Rows) error {
			var id string
			k := &known{}
			err := rows.Scan(&id, &k.Fingerprint, &k.Reply)
			into.keys[id] = k
			return err
		}, "SELECT id, fingerprint, reply FROM idempotency_keys WHERE id IN ")
		in(s, of.keys)
	}
	if len(of.orders) > 0 {
		ask(func(rows *sql.Rows) error {
			o, err := scanOrder(rows)
			if err == nil {
				into.orders[o.ID], into.stored[o.ID] = o, true
			}
			return err
		}, selectOrders+"id IN ")
		in(s, of.orders)
	}
	if len(of.reservations) > 0 {
		ask(func(rows *sql.Rows) error {
			r, err := scanReservation(rows)
			if err == nil {
				into.reservations[r.ID], into.stored[r.ID] = r, true
			}
			return err
		}, selectReservations+"id IN ")
		in(s, of.reservations)
	}
	if len(of.customers) > 0 {
		ask(func(rows *sql.Rows) error {
			var of customerOf
			var taken int64
			err := rows.Scan(&of.sku, &of.customer, &taken)
			into.taken[of] = taken
			return err
		}, "SELECT sku, customer, taken FROM customer_limits WHERE ")
		s.those(of.customers)
	}
	if len(of.holders) > 0 {
		ask(func(rows *sql.Rows) error {
			var customer string
			var has order.Holding
			err := rows.Scan(&customer, &has.Open, &has.Units)
			into.holdings[customer] = has
			return err
		}, "SELECT customer, COUNT(*), COALESCE(SUM(units), 0) FROM reservations FORCE INDEX (reservations_open)"+
			" WHERE state = '"+order.Held+"' AND customer IN ")
		in(s, of.holders)
		s.Add(" GROUP BY customer")
	}
	return results
}

// those adds a condition that matches the rows of customers, which must be sorted: one IN for each SKU. With a single
// IN of pairs, MariaDB would scan the whole table.
func (s *statement) those(customers []customerOf) {
	for i, c := range customers {
		switch {
		case i > 0 && customers[i-1].sku == c.sku:
			s.Add(", ?", c.customer)
			continue
		case i > 0:
			s.Add(") OR ")
		}
		s.Add("sku = ? AND customer IN (?", string(c.sku), c.customer)
	}
	s.Add(")")
}

// writeMySQL returns the statements that write all changes of the steps, the stock first and the keys last.
func (p *pendingWrite) writeMySQL() *statement {
	s := &statement{}
	s.writeLevels(p)
	s.writeMovements(p.movements)
	s.writeTaken(p.givenUnits())
	s.writeReservations(p)
	s.writeOrders(p)
	for i, id := range p.keptKeys() {
		s.row(i, "INSERT INTO idempotency_keys (id, fingerprint, reply, created_at) VALUES ")
		s.Add("(?, ?, ?, ?)", id, p.kept[id].Fingerprint, p.keys[id].Reply, p.now)
	}
	return s
}

// row begins the values of row i of an INSERT; row 0 begins the INSERT.
func (s *statement) row(i int, insert string) {
	if i == 0 {
		s.next(insert)
	} else {
		s.Add(", ")
	}
}

// next begins another statement of the packet.
func (s *statement) next(text string, args ...any) {
	if s.Text.Len() > 0 {
		s.Add("; ")
	}
	s.Add(text, args...)
}

// writeLevels adds the write of the changed rows of stock. The rows exist and are locked, so the INSERT always
// executes its ON DUPLICATE KEY UPDATE: it is an UPDATE with different values for each row.
func (s *statement) writeLevels(p *pendingWrite) {
	skus := p.movedSKUs()
	for i, sku := range skus {
		s.row(i, "INSERT INTO stock"+
			" (sku, quantity, initial, sold, version, epoch, fence, guard, reserved, adjusted, number) VALUES ")
		at := p.stock[sku]
		s.Add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(sku), at.Available, at.stock.Initial, at.Sold,
			at.stock.Version, at.stock.Epoch, at.stock.Fence, at.stock.Guard,
			at.Reserved, at.Received-at.stock.Initial, at.Number)
	}
	if len(skus) > 0 {
		s.Add(" ON DUPLICATE KEY UPDATE quantity = VALUES(quantity), sold = VALUES(sold), version = VALUES(version)," +
			" fence = VALUES(fence), guard = VALUES(guard), reserved = VALUES(reserved), adjusted = VALUES(adjusted)," +
			" number = VALUES(number)")
	}
}

func (s *statement) writeMovements(movements []order.Movement) {
	for i, m := range movements {
		s.row(i, "INSERT INTO movements"+
			" (sku, number, kind, received, available, reserved, sold, ref, customer, reason, at, traceparent) VALUES ")
		s.Add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULLIF(?, ''))", string(m.SKU), m.Number, string(m.Kind),
			m.Received, m.Available, m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason, m.At, m.Traceparent)
	}
}

func (s *statement) writeTaken(taken []customerUnits) {
	for i, t := range taken {
		s.row(i, "INSERT INTO customer_limits (sku, customer, taken) VALUES ")
		s.Add("(?, ?, ?)", string(t.sku), t.customer, t.units)
	}
	if len(taken) > 0 {
		s.Add(" ON DUPLICATE KEY UPDATE taken = taken + VALUES(taken)")
	}
}

func (s *statement) writeReservations(p *pendingWrite) {
	s.writeRecords(p.reserved, p.stored, "INSERT INTO reservations"+
		" (id, customer, cart, units, state, order_id, expires_at, created_at, extended_at, ended_at) VALUES ",
		" ON DUPLICATE KEY UPDATE units = VALUES(units), state = VALUES(state), order_id = VALUES(order_id),"+
			" expires_at = VALUES(expires_at), extended_at = VALUES(extended_at), ended_at = VALUES(ended_at)",
		func(id string) []any {
			r := p.reservations[id]
			return []any{
				r.ID, r.Customer, repo.Encode(r.Lines), order.Units(r.Lines), r.State, r.Order,
				r.ExpiresAt.UTC(), r.CreatedAt.UTC(), utc(r.ExtendedAt), utc(r.EndedAt),
			}
		})
}

func (s *statement) writeOrders(p *pendingWrite) {
	s.writeRecords(p.ordered, p.stored, "INSERT INTO customer_orders"+
		" (id, customer, cart, state, reservation_id, late, created_at, canceled_at) VALUES ",
		" ON DUPLICATE KEY UPDATE state = VALUES(state), canceled_at = VALUES(canceled_at)", func(id string) []any {
			o := p.orders[id]
			return []any{
				o.ID, o.Customer, repo.Encode(o.Lines), o.State, o.Reservation, o.Late,
				o.CreatedAt.UTC(), utc(o.CanceledAt),
			}
		})
}

// writeRecords adds an INSERT of the new rows, and another one, with update, of the changed rows. There are two,
// because with update a new row whose id already exists would overwrite the existing row.
func (s *statement) writeRecords(
	ids []string, stored map[string]bool, insert, update string, row func(id string) []any,
) {
	for _, changed := range []bool{false, true} {
		n := 0
		for _, id := range ids {
			if stored[id] == changed {
				s.row(n, insert)
				values := row(id)
				s.Add("(?"+strings.Repeat(", ?", len(values)-1)+")", values...)
				n++
			}
		}
		if changed && n > 0 {
			s.Add(update)
		}
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
	selectReservations = "SELECT id, customer, cart, state, order_id, expires_at, created_at, extended_at, ended_at" +
		" FROM reservations WHERE "
)

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

// scanReservation reads a reservation. With an error of its lines it returns one that has only the id.
func scanReservation(rows *sql.Rows) (*order.Reservation, error) {
	var r order.Reservation
	var cart []byte
	var extended, ended sql.NullTime
	err := rows.Scan(&r.ID, &r.Customer, &cart, &r.State, &r.Order, &r.ExpiresAt, &r.CreatedAt, &extended, &ended)
	if err != nil {
		return nil, err
	}
	r.ExtendedAt, r.EndedAt = pointer(extended), pointer(ended)
	if r.Lines, err = decodeLines(cart); err != nil {
		return &order.Reservation{ID: r.ID}, fmt.Errorf("reservation %s: %w", r.ID, err)
	}
	return &r, nil
}

func pointer(t sql.NullTime) *time.Time {
	if !t.Valid {
		return nil
	}
	return &t.Time
}
