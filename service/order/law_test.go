package order

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"example.com/stock/service"
)

// A world is a ledger as a value: what the rules are tried on. It applies changes as a store must, and checks them.
type world struct {
	now          time.Time
	levels       map[service.SKU]Level
	limits       map[service.SKU]int64
	taken        map[string]int64 // by SKU and customer
	orders       map[string]Order
	reservations map[string]Reservation
	movements    []Movement
}

func newWorld(skus ...service.SKU) *world {
	w := &world{
		now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), levels: map[service.SKU]Level{},
		limits: map[service.SKU]int64{}, taken: map[string]int64{}, orders: map[string]Order{},
		reservations: map[string]Reservation{},
	}
	for _, sku := range skus {
		w.levels[sku] = Level{}
	}
	return w
}

func takenKey(sku service.SKU, customer string) string { return string(sku) + "/" + customer }

// step does what Ledger.Step promises, for one caller at a time.
func (w *world) step(about About, r rule) ([]byte, error) {
	s := State{Now: w.now, Stock: map[service.SKU]Level{}, Holding: w.holding(about.Holder)}
	skus := about.SKUs
	if o, ok := w.orders[about.Order]; ok {
		s.Order = &o
		skus = append(slices.Clone(skus), skusOf(o.Lines)...)
	}
	if r, ok := w.reservations[about.Reservation]; ok {
		s.Reservation = &r
		skus = append(slices.Clone(skus), skusOf(r.Lines)...)
	}
	for _, sku := range skus {
		level := w.levels[sku]
		level.PerCustomer, level.Taken = w.limits[sku], w.taken[takenKey(sku, about.Customer)]
		s.Stock[sku] = level
	}
	c, err := r(s)
	if err != nil {
		return nil, err
	}
	return c.Reply, w.apply(c)
}

// holding adds up the open reservations of a customer.
func (w *world) holding(customer string) (h Holding) {
	for _, r := range w.reservations {
		if r.Customer == customer && r.State == Held {
			h.Open++
			h.Units += Units(r.Lines)
		}
	}
	return h
}

func (w *world) apply(c Changes) error {
	for _, m := range c.Movements {
		level := w.levels[m.SKU]
		if m.Number != level.Number+1 {
			return fmt.Errorf("movement %d of %s follows %d", m.Number, m.SKU, level.Number)
		}
		level.Number = m.Number
		level.Received += m.Received
		level.Available += m.Available
		level.Reserved += m.Reserved
		level.Sold += m.Sold
		if err := level.Check(); err != nil {
			return fmt.Errorf("after %+v: %w", m, err)
		}
		w.levels[m.SKU] = level
		if m.Customer != "" {
			key := takenKey(m.SKU, m.Customer)
			before := w.taken[key]
			w.taken[key] += m.Reserved + m.Sold
			if most := w.limits[m.SKU]; most > 0 && w.taken[key] > max(most, before) {
				return fmt.Errorf("%s has %d of at most %d", key, w.taken[key], most)
			}
			if w.taken[key] < 0 {
				return fmt.Errorf("%s has %d", key, w.taken[key])
			}
		}
		w.movements = append(w.movements, m)
	}
	if c.Order != nil {
		w.orders[c.Order.ID] = *c.Order
	}
	if c.Reservation != nil {
		w.reservations[c.Reservation.ID] = *c.Reservation
	}
	return nil
}

// check says what is wrong with the books as a whole: a reservation keeps what it says while it is held and nothing
// after, an order has what it says until it is canceled, and the customers have what their rows say.
func (w *world) check() error {
	type key struct {
		ref string
		sku service.SKU
	}
	reserved, sold := map[key]int64{}, map[key]int64{}
	for _, m := range w.movements {
		if m.Kind == Confirm { // the units of a reservation become those of its order
			reserved[key{m.Ref, m.SKU}] += m.Reserved
			sold[key{w.reservations[m.Ref].Order, m.SKU}] += m.Sold
			continue
		}
		reserved[key{m.Ref, m.SKU}] += m.Reserved
		sold[key{m.Ref, m.SKU}] += m.Sold
	}
	has := map[string]int64{}
	for _, r := range w.reservations {
		for _, l := range r.Lines {
			want := int64(0)
			if r.State == Held {
				want = l.Quantity
				has[takenKey(l.SKU, r.Customer)] += want
			}
			if got := reserved[key{r.ID, l.SKU}]; got != want {
				return fmt.Errorf("reservation %s (%s) keeps %d of %s, want %d", r.ID, r.State, got, l.SKU, want)
			}
		}
		if (r.State == Confirmed) != (r.Order != "") || (r.State == Held) != (r.EndedAt == nil) {
			return fmt.Errorf("reservation %+v contradicts itself", r)
		}
	}
	for _, o := range w.orders {
		for _, l := range o.Lines {
			want := int64(0)
			if o.State == Placed {
				want = l.Quantity
				has[takenKey(l.SKU, o.Customer)] += want
			}
			if got := sold[key{o.ID, l.SKU}]; got != want {
				return fmt.Errorf("order %s (%s) has %d of %s, want %d", o.ID, o.State, got, l.SKU, want)
			}
		}
	}
	maps.DeleteFunc(w.taken, func(_ string, n int64) bool { return n == 0 })
	maps.DeleteFunc(has, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(w.taken, has) {
		return fmt.Errorf("customers have %v, want %v", w.taken, has)
	}
	for sku, level := range w.levels {
		if err := Audit(sku, level, slices.Values(slices.DeleteFunc(slices.Clone(w.movements),
			func(m Movement) bool { return m.SKU != sku }))); len(err.Problems) > 0 {
			return fmt.Errorf("audit of %s: %v", sku, err.Problems)
		}
	}
	return nil
}

// random does a random thing to the world, driven by r, and returns what goes against the rules.
func (w *world) random(r *rand.Rand, id string) error {
	skus := slices.Sorted(maps.Keys(w.levels))
	customer := []string{"ann", "bob", "eve"}[r.IntN(3)]
	lines := []Line{}
	for range 1 + r.IntN(3) {
		lines = append(lines, Line{skus[r.IntN(len(skus))], 1 + r.Int64N(4)})
	}
	lines, _ = merge(lines)
	pick := func(ids []string) string {
		if len(ids) == 0 {
			return "none"
		}
		slices.Sort(ids)
		return ids[r.IntN(len(ids))]
	}
	order, reservation := pick(slices.Collect(maps.Keys(w.orders))), pick(slices.Collect(maps.Keys(w.reservations)))
	sku := skus[r.IntN(len(skus))]
	about := About{SKUs: skusOf(lines), Customer: customer}
	var do rule
	limits := Limits{Open: 4, Units: 20, Share: 70, ExtendEvery: 10 * time.Second}
	switch r.IntN(10) {
	case 0:
		do = place(id, customer, lines)
	case 1, 2:
		about.Holder = limits.holder(customer)
		do = reserve(id, customer, lines, time.Duration(1+r.IntN(20))*time.Second, limits)
	case 3, 4:
		about = About{Customer: customer, Reservation: reservation}
		do = confirm(id, customer)
	case 5:
		about = About{Customer: customer, Reservation: reservation}
		do = release(customer)
	case 6:
		about = About{Customer: customer, Order: order}
		do = cancelOrder(customer)
	case 7:
		about = About{Customer: customer, Reservation: reservation}
		do = extend(customer, time.Duration(r.IntN(30*3600))*time.Second, limits)
	case 8:
		w.now = w.now.Add(time.Duration(r.IntN(10)) * time.Second)
		if r.IntN(50) == 0 {
			w.now = w.now.Add(MaxTTL)
		}
		about = About{Customer: w.reservations[reservation].Customer, Reservation: reservation}
		do = expire
	case 9:
		about = About{SKUs: []service.SKU{sku}}
		switch r.IntN(3) {
		case 0:
			do = adjust(sku, r.Int64N(30)-10, "", service.Condition{})
		case 1:
			do = set(sku, r.Int64N(20), service.Condition{})
		case 2:
			w.limits[sku] = r.Int64N(8)
			return nil
		}
	}
	first, err := w.step(about, do)
	refused := errors.Is(err, ErrShort) || errors.Is(err, ErrLimit) || errors.Is(err, ErrState) ||
		errors.Is(err, ErrNotFound) || errors.Is(err, ErrExpired) || errors.Is(err, ErrBelowZero) ||
		errors.Is(err, ErrHold) || errors.Is(err, ErrEarly)
	if err != nil && !refused {
		return err
	}
	if h := w.holding(customer); h.Open > limits.Open || h.Units > limits.Units {
		return fmt.Errorf("%s has %+v, more than %+v", customer, h, limits)
	}
	if about.Order+about.Reservation == "" || err != nil {
		return w.check()
	}
	// The same end again: the same reply, and nothing moves.
	moved := len(w.movements)
	again, err := w.step(about, do)
	if err != nil || string(again) != string(first) || len(w.movements) != moved {
		return fmt.Errorf("again: %s, %v and %d movements; first %s", again, err, len(w.movements)-moved, first)
	}
	return w.check()
}

func TestTheLawHoldsForAnySequence(t *testing.T) {
	steps := 400
	for seed := range uint64(30) {
		w := newWorld("a", "b", "c")
		r := rand.New(rand.NewPCG(seed, 1))
		for i := range steps {
			if err := w.random(r, fmt.Sprint("id", i)); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, i, err)
			}
		}
		if seed == 0 {
			kinds := map[Kind]int{}
			for _, m := range w.movements {
				kinds[m.Kind]++
			}
			t.Log(kinds)
		}
	}
}
