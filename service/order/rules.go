package order

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"example.com/stock/service"
)

// The rules are pure functions from a State to the Changes that a step writes. They read no clock, make no id, and
// use no store, so a Ledger may call a rule again with another State, and a test can call it with any State.
//
// A repeated request to end an order or a reservation returns the same reply and moves nothing. A request to end it
// in another way fails with a StateError.

type rule func(State) (Changes, error)

func place(id, customer string, lines []Line) rule {
	return func(s State) (Changes, error) {
		if err := mayHave(s, lines); err != nil {
			return Changes{}, err
		}
		o := Order{ID: id, Customer: customer, Lines: lines, State: Placed, CreatedAt: s.Now}
		w := newWriter(s)
		w.all(Sell, lines, id, customer)
		return w.order(&o).replying(o)
	}
}

// cancelOrder returns the units of an order to stock, once.
func cancelOrder(customer string) rule {
	return func(s State) (Changes, error) {
		if s.Order == nil || s.Order.Customer != customer {
			return Changes{}, ErrNotFound
		}
		o := *s.Order
		w := newWriter(s)
		if o.State == Canceled {
			return w.replying(o)
		}
		o.State, o.CanceledAt = Canceled, &s.Now
		w.all(Return, o.Lines, o.ID, customer)
		return w.order(&o).replying(o)
	}
}

// reserve checks the limits of the customer first, because more stock would not help a customer who is over them. The
// share of the reservations is checked last, because it depends on stock that is there.
func reserve(id, customer string, lines []Line, ttl time.Duration, limits Limits) rule {
	return func(s State) (Changes, error) {
		if err := limits.mayHold(s.Holding, lines); err != nil {
			return Changes{}, err
		}
		if err := mayHave(s, lines); err != nil {
			return Changes{}, err
		}
		if err := limits.leaves(s.Stock, lines); err != nil {
			return Changes{}, err
		}
		r := Reservation{
			ID: id, Customer: customer, Lines: lines, State: Held, CreatedAt: s.Now, ExpiresAt: s.Now.Add(ttl),
		}
		w := newWriter(s)
		w.all(Reserve, lines, id, customer)
		return w.reservation(&r).replying(r)
	}
}

// confirm turns a reservation into the order with this id. If the reservation has expired, because the payment came
// late, confirm takes the units from stock again, if they are available and the customer's limit allows it.
func confirm(id, customer string) rule {
	return func(s State) (Changes, error) {
		r, err := owned(s, customer)
		if err != nil {
			return Changes{}, err
		}
		w := newWriter(s)
		switch stateAt(r, s.Now) {
		case Held:
			w.all(Confirm, r.Lines, r.ID, customer)
		case Expired:
			if r.State == Held { // and no sweeper has ended it yet
				w.all(Expire, r.Lines, r.ID, customer)
			}
			if err := mayHave(w.state(), r.Lines); err != nil {
				return Changes{}, fmt.Errorf("%w: %w", ErrExpired, err)
			}
			w.all(Sell, r.Lines, id, customer)
		case Confirmed:
			return w.replying(orderOf(r))
		default:
			return Changes{}, &StateError{r.State}
		}
		r.State, r.Order, r.EndedAt = Confirmed, id, &s.Now
		o := orderOf(r)
		return w.reservation(&r).order(&o).replying(o)
	}
}

// orderOf returns the order that the confirmed reservation r became, in its state directly after the confirmation.
func orderOf(r Reservation) Order {
	return Order{
		ID: r.Order, Customer: r.Customer, Lines: r.Lines, State: Placed, Reservation: r.ID, CreatedAt: *r.EndedAt,
		Late: !r.EndedAt.Before(r.ExpiresAt),
	}
}

// release returns the units of a reservation to stock because its customer cancels it.
func release(customer string) rule {
	return func(s State) (Changes, error) {
		r, err := owned(s, customer)
		if err != nil {
			return Changes{}, err
		}
		w := newWriter(s)
		switch state := stateAt(r, s.Now); state {
		case Held:
			r.State, r.EndedAt = Released, &s.Now
			w.all(Cancel, r.Lines, r.ID, customer)
			return w.reservation(&r).replying(r)
		case Released:
			return w.replying(r)
		default:
			return Changes{}, &StateError{state}
		}
	}
}

// extend makes a held reservation expire ttl from now, but no later than MaxTTL after its creation, so that units are
// not held for ever. It never makes it expire earlier. An extension that changes nothing is never too early.
func extend(customer string, ttl time.Duration, limits Limits) rule {
	return func(s State) (Changes, error) {
		r, err := owned(s, customer)
		if err != nil {
			return Changes{}, err
		}
		if state := stateAt(r, s.Now); state != Held {
			return Changes{}, &StateError{state}
		}
		until := s.Now.Add(ttl)
		if most := r.CreatedAt.Add(MaxTTL); until.After(most) {
			until = most
		}
		w := newWriter(s)
		if until.After(r.ExpiresAt) {
			if err := limits.mayExtend(r, s.Now); err != nil {
				return Changes{}, err
			}
			r.ExpiresAt, r.ExtendedAt = until, &s.Now
			w.reservation(&r)
		}
		return w.replying(r)
	}
}

// expire ends a reservation that has expired. It changes nothing if the reservation has ended or was extended
// meanwhile, because several sweepers may find the same reservation.
func expire(s State) (Changes, error) {
	if s.Reservation == nil || s.Reservation.State != Held || stateAt(*s.Reservation, s.Now) != Expired {
		return Changes{}, nil
	}
	r := *s.Reservation
	r.State, r.EndedAt = Expired, &s.Now
	w := newWriter(s)
	w.all(Expire, r.Lines, r.ID, r.Customer)
	return w.reservation(&r).changes()
}

func adjust(sku service.SKU, delta int64, reason string, c service.Condition) rule {
	return func(s State) (Changes, error) {
		level := s.Stock[sku]
		if !c.Holds(level.Tag()) {
			return Changes{}, service.ErrPrecondition
		}
		if level.Available+delta < 0 {
			return Changes{}, ErrBelowZero
		}
		return received(s, Adjust, sku, delta, reason)
	}
}

// set makes quantity units available. It writes a movement with the difference to the units available before, even if
// the difference is 0, because the movement shows that a person has counted.
func set(sku service.SKU, quantity int64, c service.Condition) rule {
	return func(s State) (Changes, error) {
		level := s.Stock[sku]
		if !c.Holds(level.Tag()) {
			return Changes{}, service.ErrPrecondition
		}
		return received(s, Receive, sku, quantity-level.Available, "")
	}
}

func received(s State, kind Kind, sku service.SKU, delta int64, reason string) (Changes, error) {
	if s.Stock[sku].Available+delta > service.MaxStock {
		return Changes{}, service.Invalid("delta", "leave", "most", service.MaxStock)
	}
	w := newWriter(s)
	w.move(Movement{SKU: sku, Kind: kind, Reason: reason}, delta)
	if w.err != nil {
		return Changes{}, w.err
	}
	return w.replying(Entry{Counts: w.levels[sku].Counts(sku), Movement: w.c.Movements[0]})
}

// owned returns the reservation of s if it belongs to the customer.
func owned(s State, customer string) (Reservation, error) {
	if s.Reservation == nil || s.Reservation.Customer != customer {
		return Reservation{}, ErrNotFound
	}
	return *s.Reservation, nil
}

// stateAt returns the state of r at now. A held reservation has expired from ExpiresAt on, swept or not.
func stateAt(r Reservation, now time.Time) string {
	if r.State == Held && !now.Before(r.ExpiresAt) {
		return Expired
	}
	return r.State
}

// mayHave fails if the lines exceed the customer's limit or the available units. The limit is checked first: a customer
// over the limit would not be helped by more stock.
func mayHave(s State, lines []Line) error {
	for _, l := range lines {
		level := s.Stock[l.SKU]
		if level.PerCustomer > 0 && level.Taken+l.Quantity > level.PerCustomer {
			return &LimitError{l.SKU, level.PerCustomer, max(0, level.PerCustomer-level.Taken)}
		}
	}
	var short []Shortage
	for _, l := range lines {
		if available := s.Stock[l.SKU].Available; available < l.Quantity {
			short = append(short, Shortage{l.SKU, l.Quantity, available})
		}
	}
	if short != nil {
		return &ShortError{short}
	}
	return nil
}

// deltas returns what a movement of this kind adds to each counter of the law.
func (k Kind) deltas(units int64) (received, available, reserved, sold int64) {
	switch k {
	case Receive, Adjust:
		return units, units, 0, 0
	case Sell:
		return 0, -units, 0, units
	case Reserve:
		return 0, -units, units, 0
	case Confirm:
		return 0, 0, -units, units
	case Cancel, Expire:
		return 0, units, -units, 0
	case Return:
		return 0, units, 0, -units
	}
	return 0, 0, 0, 0
}

// A writer collects the changes of a step, and the levels after these changes.
type writer struct {
	s      State
	levels map[service.SKU]Level
	c      Changes
	err    error
}

func newWriter(s State) *writer { return &writer{s: s, levels: maps.Clone(s.Stock)} }

// state returns the State after the movements so far.
func (w *writer) state() State {
	s := w.s
	s.Stock = w.levels
	return s
}

func (w *writer) all(kind Kind, lines []Line, ref, customer string) {
	for _, l := range lines {
		w.move(Movement{SKU: l.SKU, Kind: kind, Ref: ref, Customer: customer}, l.Quantity)
	}
}

// move adds the movement m of this many units, and sets its number and time. No rule makes a counter negative. If a
// counter becomes negative, the books were wrong before, and the step is refused.
func (w *writer) move(m Movement, units int64) {
	level := w.levels[m.SKU]
	m.Received, m.Available, m.Reserved, m.Sold = m.Kind.deltas(units)
	m.Number, m.At = level.Number+1, w.s.Now
	if m.Customer != "" {
		level.Taken += m.Reserved + m.Sold
	}
	if err := level.Apply(m); err != nil && w.err == nil {
		w.err = fmt.Errorf("%s %d units of %s: %w", m.Kind, units, m.SKU, err)
	}
	w.levels[m.SKU] = level
	w.c.Movements = append(w.c.Movements, m)
}

func (w *writer) order(o *Order) *writer {
	w.c.Order = o
	return w
}

func (w *writer) reservation(r *Reservation) *writer {
	w.c.Reservation = r
	return w
}

func (w *writer) changes() (Changes, error) {
	if w.err != nil {
		return Changes{}, w.err
	}
	return w.c, nil
}

// replying returns the changes with v as their reply.
func (w *writer) replying(v any) (Changes, error) {
	reply, err := json.Marshal(v)
	if err != nil {
		return Changes{}, fmt.Errorf("encode the reply: %w", err)
	}
	w.c.Reply, w.c.value = reply, v
	return w.changes()
}
