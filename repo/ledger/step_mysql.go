package ledger

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
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

// A MySQL is the order.Ledger of a MySQL, and what belongs to it. Its stock is that of the MySQL. A step is one
// transaction.
//
// What a step locks first are the rows of its SKUs in stock, sorted, in one statement. Everything else that it writes
// belongs to one of these SKUs, and every writer of it has locked that row: the order, the reservation, what the
// customer has, the numbers of the movements. So these are read without locks, after the rows of the stock were locked,
// and steps with the same SKUs queue for one row instead of deadlocking over several. The idempotency key alone may be
// written by a step about other SKUs: it is inserted last, and its primary key decides.
//
// Batch does the same for many steps: one statement locks the rows of all, in the same order, and one statement for
// each table writes what all of them have changed. Each step is decided on what those before it leave (see draft).
//
// Round trips of Step and Batch, for any number of lines and steps: 2, as those of a sale (see repo.MySQL.InTwo). The
// first locks the rows and reads, the second writes and commits, or is a ROLLBACK. The rows are locked for the second
// alone. A Step about an order or a reservation takes one more, before the transaction and without locks, for the SKUs
// of the order. The first step of a SKU that it creates takes two more.
//
// A SELECT takes some 6 % of a sale's time, under the lock. So keys are not asked for first: one that is there is found
// when it is inserted, and all is made once more, with the keys (5 round trips). What is refused may be a repeat of
// what was not: its key is looked for without locks, which is one more. So is, under the lock, what customers have of a
// SKU with a limit, the first time.
type MySQL struct {
	mysql   *repo.MySQL
	seed    maphash.Seed
	limited [1 << 14]atomic.Bool // see hasLimit
}

// NewMySQL returns the ledger in m.
func NewMySQL(m *repo.MySQL) *MySQL { return &MySQL{mysql: m, seed: maphash.MakeSeed()} }

// A statement is a packet of SQL that a ledger sends.
type statement struct{ repo.Statement }

// Step runs decide in a transaction. See MySQL for its round trips. InnoDB may end a transaction to resolve a
// deadlock, with a transaction of another kind on the same server, say; then it is run again, five times at most.
//
// A wait for a row that reaches innodb_lock_wait_timeout, or five deadlocks, end with lock.ErrHeld: nothing was
// written.
func (l *MySQL) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	named := about.SKUs
	var how access
	for attempt := 1; ; attempt++ {
		if about.Order != "" || about.Reservation != "" {
			s := scopeOf([]order.Request{{About: about}})
			s.customers = nil
			seen, err := l.look(ctx, s)
			if err != nil {
				return nil, false, err
			}
			if known := seen.keys[about.Key.ID]; known != nil {
				return known.replay(about.Key)
			}
			about.SKUs = named
			about.SKUs = reach(about, seen.orders[about.Order], seen.reservations[about.Reservation])
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

// Batch makes the steps in one transaction. See MySQL for its round trips. If the server refuses what is written
// for the sake of one step, it makes each in a transaction of its own.
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
		case err != nil && !repo.OfOneOrder(err):
			outcomes[i].Err = err
		case err != nil, errors.Is(outcomes[i].Err, errElsewhere):
			outcomes[i] = outcomeOf(l.Step(ctx, steps[i].About, steps[i].Decide))
		}
	}
	return outcomes
}

// look reads, without locks, what a draft has besides the stock.
func (l *MySQL) look(ctx context.Context, s scope) (*draft, error) {
	var q statement
	seen := newDraft()
	results := q.see(s, seen)
	return seen, l.read(ctx, "read for a step", "step", &q, results...)
}

// An access says what a transaction does before its steps are decided.
type access struct {
	keys   bool // read the idempotency keys; otherwise one that is there ends it with errKeyTaken
	create bool // make the SKUs that are not there
}

// batch is the transaction of Step and Batch. The error is of all steps.
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
		d, err := l.lockSteps(tx, s, how)
		if err != nil {
			return nil, err
		}
		if outcomes = d.all(steps); d.unchanged() {
			return nil, repo.ErrNothing
		}
		return &d.writeMySQL().Statement, nil
	})
	switch {
	case errors.Is(err, repo.ErrNothing):
		return outcomes, nil
	case len(s.keys) > 0 && mysqlerr.Number(err) == mysqlerr.DupEntry:
		// By a step that is committed: otherwise the server would have waited for it.
		return nil, fmt.Errorf("%s: %w: %w", doing, errKeyTaken, err)
	case err != nil:
		return nil, err
	}
	return outcomes, nil
}

// recall looks for the keys of the steps that were refused. Where one is there, the step is a repeat. A key with which
// another step of the batch was made was not there.
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
			outcomes[i].Err = err // it may have been made
		} else if k := seen.keys[key.ID]; refused && k != nil {
			outcomes[i] = outcomeOf(k.replay(key))
		}
	}
}

// lockSteps begins the transaction, locks the rows of the stock in the order of their keys, and then reads what the
// steps depend on, in one packet. The server takes the snapshot of the transaction behind the locks: nothing that
// belongs to the locked rows is older.
//
// FORCE INDEX, because a server may otherwise read a small table from end to end, and lock all of it.
func (l *MySQL) lockSteps(tx *gorm.DB, s scope, how access) (*draft, error) {
	var q statement
	q.Add(repo.Begin)
	if how.create {
		q.create(s.skus)
	}
	q.shelves(s.skus)
	q.Add(" FOR UPDATE")
	rows := make(map[service.SKU]shelfRow, len(s.skus))
	d := newDraft()
	if !how.keys {
		s.keys = nil
	}
	customers := slices.Clone(s.customers)
	s.customers = slices.DeleteFunc(s.customers, func(c customerOf) bool { return !l.hasLimit(c.sku).Load() })
	if err := q.each(tx, append([]func(*sql.Rows) error{scanShelves(rows, &d.now)}, q.see(s, d)...)...); err != nil {
		return nil, err
	}
	for _, sku := range s.skus {
		d.stock[sku] = &shelf{}
		if row, there := rows[sku]; there {
			d.stock[sku] = newShelf(row.Stock, row.level())
			l.hasLimit(sku).Store(row.perCustomer > 0)
		}
	}
	customers = slices.DeleteFunc(customers, func(c customerOf) bool {
		return rows[c.sku].perCustomer == 0 || slices.Contains(s.customers, c)
	})
	if len(customers) > 0 {
		var more statement
		return d, more.each(tx, more.see(scope{customers: customers}, d)...)
	}
	return d, nil
}

// hasLimit guesses whether a SKU has a limit for each customer: by the last row that was read of those with the same
// hash. It saves a round trip, and nothing depends on it.
func (l *MySQL) hasLimit(sku service.SKU) *atomic.Bool {
	return &l.limited[maphash.String(l.seed, string(sku))%uint64(len(l.limited))]
}

// create makes rows for the SKUs that have none, and locks all of them. It is the first statement of its transaction:
// one that has looked for a row in vain, with FOR UPDATE, keeps others from making it until it ends, and two of these
// deadlock.
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

// A shelfRow is a row of stock with what a ledger counts.
type shelfRow struct {
	service.Stock
	reserved, adjusted, perCustomer int64
	number                          uint64
}

func (r shelfRow) level() order.Level {
	return order.Level{
		Received: r.Initial + r.adjusted, Available: r.Quantity, Reserved: r.reserved, Sold: r.Sold,
		Number: r.number, PerCustomer: r.perCustomer,
	}
}

// shelves is the SELECT of the rows of those SKUs, for scanShelves. SYSDATE is the server's clock when the row is read,
// and so behind its lock, where UTC_TIMESTAMP is that of the statement's begin. The sessions are in UTC.
func (s *statement) shelves(skus []service.SKU) {
	s.Add("SELECT sku, quantity, initial, sold, version, epoch, fence, guard," +
		" reserved, adjusted, per_customer, number, SYSDATE(6) FROM stock FORCE INDEX (PRIMARY) WHERE sku IN ")
	in(s, skus)
	s.Add(" ORDER BY sku")
}

// scanShelves also sets now to the time of the last row.
func scanShelves(into map[service.SKU]shelfRow, now *time.Time) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var r shelfRow
		err := rows.Scan(&r.SKU, &r.Quantity, &r.Initial, &r.Sold, &r.Version, &r.Epoch, &r.Fence, &r.Guard,
			&r.reserved, &r.adjusted, &r.perCustomer, &r.number, now)
		into[r.SKU] = r
		return err
	}
}

// in adds texts as a list. SQL has no empty one.
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

// each sends the packet, and calls a func for each row of each of its results, which are those of its SELECTs.
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

// errNoResult cannot be: a SELECT has a result, or an error.
var errNoResult = errors.New("a statement has no result")

// see adds the SELECTs of what a draft has besides the stock, without locks, to a packet, and returns what reads their
// results. They are one for each table, all by primary key: as one SELECT with joins they would take the server longer.
func (s *statement) see(of scope, into *draft) (results []func(*sql.Rows) error) {
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
	return results
}

// those adds a condition for the rows of customers, which are sorted: an IN for each SKU. As one IN of pairs MariaDB
// would read the table from end to end.
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

// writeMySQL writes everything that the steps have changed, the stock first and the keys last.
func (d *draft) writeMySQL() *statement {
	s := &statement{}
	s.writeShelves(d)
	s.writeMovements(d.movements)
	s.writeTaken(d.givenUnits())
	s.writeReservations(d)
	s.writeOrders(d)
	for i, id := range d.keptKeys() {
		s.row(i, "INSERT INTO idempotency_keys (id, fingerprint, reply, created_at) VALUES ")
		s.Add("(?, ?, ?, ?)", id, d.kept[id].Fingerprint, d.keys[id].Reply, d.now)
	}
	return s
}

// row begins the values of row i of an INSERT.
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

// writeShelves writes the rows of stock as the steps leave them. They are there, and locked: the INSERT is a form of
// UPDATE that gives each row values of its own.
func (s *statement) writeShelves(d *draft) {
	skus := d.movedSKUs()
	for i, sku := range skus {
		s.row(i, "INSERT INTO stock"+
			" (sku, quantity, initial, sold, version, epoch, fence, guard, reserved, adjusted, number) VALUES ")
		at := d.stock[sku]
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
			" (sku, number, kind, received, available, reserved, sold, ref, customer, reason, at) VALUES ")
		s.Add("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", string(m.SKU), m.Number, string(m.Kind),
			m.Received, m.Available, m.Reserved, m.Sold, m.Ref, m.Customer, m.Reason, m.At)
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

func (s *statement) writeReservations(d *draft) {
	s.writeRecords(d.reserved, d.stored, "INSERT INTO reservations"+
		" (id, customer, cart, state, order_id, expires_at, created_at, ended_at) VALUES ",
		" ON DUPLICATE KEY UPDATE state = VALUES(state), order_id = VALUES(order_id),"+
			" expires_at = VALUES(expires_at), ended_at = VALUES(ended_at)", func(id string) []any {
			r := d.reservations[id]
			return []any{
				r.ID, r.Customer, repo.Encode(r.Lines), r.State, r.Order,
				r.ExpiresAt.UTC(), r.CreatedAt.UTC(), utc(r.EndedAt),
			}
		})
}

func (s *statement) writeOrders(d *draft) {
	s.writeRecords(d.ordered, d.stored, "INSERT INTO customer_orders"+
		" (id, customer, cart, state, reservation_id, late, created_at, canceled_at) VALUES ",
		" ON DUPLICATE KEY UPDATE state = VALUES(state), canceled_at = VALUES(canceled_at)", func(id string) []any {
			o := d.orders[id]
			return []any{
				o.ID, o.Customer, repo.Encode(o.Lines), o.State, o.Reservation, o.Late,
				o.CreatedAt.UTC(), utc(o.CanceledAt),
			}
		})
}

// writeRecords writes the rows that are new, and then those that have changed. An INSERT of both would change another
// row where a new one has its id.
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
