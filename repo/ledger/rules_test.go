package ledger_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// The rules of these tests: the shortest that move stock in every way. What a ledger promises does not depend on them.

// A books is all that a store keeps for an order service.
type books interface {
	orders.Batcher
	orders.Records
	orders.Book
	orders.Sweeper
}

// A rule decides a step.
type rule = func(orders.State) (orders.Changes, error)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// keyed returns an idempotency key of a request, such as "body": a digest in the place of which any text does.
func keyed(request string) orders.Key { return orders.Key{ID: newID(), Fingerprint: request} }

func line(sku service.SKU, quantity int64) orders.Line {
	return orders.Line{SKU: sku, Quantity: quantity}
}

func skusOf(lines []orders.Line) (skus []service.SKU) {
	for _, l := range lines {
		skus = append(skus, l.SKU)
	}
	return skus
}

// moves returns the movements of lines, each of the kind, which follow those that are there.
func moves(s orders.State, kind orders.Kind, lines []orders.Line, ref, customer string) (all []orders.Movement) {
	for _, l := range lines {
		m := orders.Movement{
			SKU: l.SKU, Number: s.Stock[l.SKU].Number + 1, Kind: kind, Ref: ref, Customer: customer, At: s.Now,
		}
		switch n := l.Quantity; kind {
		case orders.Receive, orders.Adjust:
			m.Received, m.Available = n, n
		case orders.Sell:
			m.Available, m.Sold = -n, n
		case orders.Reserve:
			m.Available, m.Reserved = -n, n
		case orders.Confirm:
			m.Reserved, m.Sold = -n, n
		case orders.Cancel, orders.Expire:
			m.Reserved, m.Available = -n, n
		case orders.Return:
			m.Sold, m.Available = -n, n
		}
		all = append(all, m)
	}
	return all
}

// missing returns the lines that cannot be had.
func missing(s orders.State, lines []orders.Line) error {
	var short []orders.Shortage
	for _, l := range lines {
		level := s.Stock[l.SKU]
		if level.PerCustomer > 0 && level.Taken+l.Quantity > level.PerCustomer {
			return &orders.LimitError{SKU: l.SKU, Limit: level.PerCustomer, Remaining: level.PerCustomer - level.Taken}
		}
		if level.Available < l.Quantity {
			short = append(short, orders.Shortage{SKU: l.SKU, Requested: l.Quantity, Available: level.Available})
		}
	}
	if short != nil {
		return &orders.ShortError{Lines: short}
	}
	return nil
}

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// place sells the lines to a customer.
func place(id, customer string, lines ...orders.Line) rule {
	return func(s orders.State) (orders.Changes, error) {
		if err := missing(s, lines); err != nil {
			return orders.Changes{}, err
		}
		o := orders.Order{ID: id, Customer: customer, Lines: lines, State: orders.Placed, CreatedAt: s.Now}
		return orders.Changes{Movements: moves(s, orders.Sell, lines, id, customer), Order: &o, Reply: text(o)}, nil
	}
}

// hold reserves the lines for a customer.
func hold(id, customer string, ttl time.Duration, lines ...orders.Line) rule {
	return func(s orders.State) (orders.Changes, error) {
		if err := missing(s, lines); err != nil {
			return orders.Changes{}, err
		}
		r := orders.Reservation{
			ID: id, Customer: customer, Lines: lines, State: orders.Held, CreatedAt: s.Now, ExpiresAt: s.Now.Add(ttl),
		}
		return orders.Changes{
			Movements: moves(s, orders.Reserve, lines, id, customer), Reservation: &r, Reply: text(r),
		}, nil
	}
}

// end ends the reservation that the step is about. One that was confirmed becomes the order with that id.
func end(state, orderID string) rule {
	kind := map[string]orders.Kind{
		orders.Confirmed: orders.Confirm, orders.Released: orders.Cancel, orders.Expired: orders.Expire,
	}[state]
	return func(s orders.State) (orders.Changes, error) {
		switch {
		case s.Reservation == nil:
			return orders.Changes{}, orders.ErrNotFound
		case s.Reservation.State != orders.Held:
			return orders.Changes{}, &orders.StateError{State: s.Reservation.State}
		}
		r := *s.Reservation
		r.State, r.EndedAt = state, &s.Now
		c := orders.Changes{Movements: moves(s, kind, r.Lines, r.ID, r.Customer), Reservation: &r, Reply: text(r)}
		if state == orders.Confirmed {
			r.Order = orderID
			c.Order = &orders.Order{
				ID: orderID, Customer: r.Customer, Lines: r.Lines, State: orders.Placed,
				Reservation: r.ID, CreatedAt: s.Now,
			}
		}
		return c, nil
	}
}

// giveBack cancels the order that the step is about.
func giveBack(s orders.State) (orders.Changes, error) {
	switch {
	case s.Order == nil:
		return orders.Changes{}, orders.ErrNotFound
	case s.Order.State != orders.Placed:
		return orders.Changes{}, &orders.StateError{State: s.Order.State}
	}
	o := *s.Order
	o.State, o.CanceledAt = orders.Canceled, &s.Now
	return orders.Changes{
		Movements: moves(s, orders.Return, o.Lines, o.ID, o.Customer), Order: &o, Reply: text(o),
	}, nil
}

// adjust adds units.
func adjust(sku service.SKU, delta int64) rule {
	return func(s orders.State) (orders.Changes, error) {
		if s.Stock[sku].Available+delta < 0 {
			return orders.Changes{}, orders.ErrBelowZero
		}
		moved := moves(s, orders.Adjust, []orders.Line{line(sku, delta)}, "", "")
		moved[0].Reason = `quote ' " \ % 库存`
		return orders.Changes{Movements: moved, Reply: text(delta)}, nil
	}
}

// stocked makes a SKU with so many units, by an adjustment.
func stocked(t testing.TB, d desk, sku service.SKU, units int64) service.SKU {
	t.Helper()
	step(t, d, orders.About{SKUs: []service.SKU{sku}, Create: true}, adjust(sku, units))
	return sku
}

// step wants a step to succeed.
func step(t testing.TB, d desk, about orders.About, decide rule) []byte {
	t.Helper()
	reply, replayed, err := d.Step(short(t), about, decide)
	if err != nil || replayed {
		t.Fatalf("step about %+v: replayed %v, %v", about, replayed, err)
	}
	return reply
}

// held reserves lines, and returns the id of the reservation.
func held(t testing.TB, d desk, customer string, ttl time.Duration, lines ...orders.Line) string {
	t.Helper()
	id := newID()
	step(t, d, orders.About{SKUs: skusOf(lines), Customer: customer}, hold(id, customer, ttl, lines...))
	return id
}

// refuses wants a step to fail with target, and nothing written to any of its SKUs.
func refuses(t testing.TB, d desk, about orders.About, target error, decide rule) {
	t.Helper()
	before := map[service.SKU]orders.Level{}
	for _, sku := range about.SKUs {
		before[sku], _ = d.Level(short(t), sku)
	}
	if _, _, err := d.Step(short(t), about, decide); !errors.Is(err, target) {
		t.Errorf("step: %v, want %v", err, target)
	}
	for _, sku := range about.SKUs {
		if got, _ := d.Level(short(t), sku); got != before[sku] {
			t.Errorf("a refusal changed %s from %+v to %+v", sku, before[sku], got)
		}
	}
}

// level wants the stock of a SKU to be that, and its movements to add up to it, with the law at every point.
func level(t testing.TB, d desk, sku service.SKU, available, reserved, sold int64) orders.Level {
	t.Helper()
	l := balances(t, d, sku)
	if l.Available != available || l.Reserved != reserved || l.Sold != sold {
		t.Errorf("%s: %+v, want %d available, %d reserved, %d sold", sku, l, available, reserved, sold)
	}
	return l
}

// balances wants the law at every point of the ledger, numbers without a gap, and counters that are its sums.
func balances(t testing.TB, d desk, sku service.SKU) orders.Level {
	t.Helper()
	l, err := d.Level(short(t), sku)
	if err != nil {
		t.Fatal(err)
	}
	var sum orders.Level
	for _, m := range journal(t, d, sku) {
		sum.Received += m.Received
		sum.Available += m.Available
		sum.Reserved += m.Reserved
		sum.Sold += m.Sold
		if m.Number != sum.Number+1 || m.SKU != sku {
			t.Errorf("%s: movement %d of %s follows number %d", sku, m.Number, m.SKU, sum.Number)
		}
		sum.Number = m.Number
		if sum.Received != sum.Available+sum.Reserved+sum.Sold ||
			min(sum.Received, sum.Available, sum.Reserved, sum.Sold) < 0 {
			t.Errorf("%s: after movement %d the law is broken: %+v", sku, m.Number, sum)
		}
	}
	sum.PerCustomer = l.PerCustomer
	if sum != l {
		t.Errorf("%s: the movements add up to %+v, the counters are %+v", sku, sum, l)
	}
	return l
}

// journal reads all movements, in pages of a size that does not divide their number.
func journal(t testing.TB, d desk, sku service.SKU) (all []orders.Movement) {
	t.Helper()
	after := uint64(0)
	for {
		page, err := d.Movements(short(t), sku, after, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		after = page[len(page)-1].Number
	}
}
