package service

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// MaxStock is the largest number of units that can be available.
const MaxStock = 1_000_000_000

// State is what a step has locked and read.
type State struct {
	Now         time.Time
	Stock       map[string]Stock
	Order       *Order
	Reservation *Reservation
	Taken       map[string]int64 // units that the customer has, reserved and sold, of the SKUs with a limit
	Open        int64            // the customer's open reservations, when a reservation is made
	OpenUnits   int64            // units in them
}

// A Result is what a step answers. It is stored with the idempotency key.
type Result struct {
	Order       *Order       `json:",omitempty"`
	Reservation *Reservation `json:",omitempty"`
	Stock       *Stock       `json:",omitempty"`
}

// Changes are what a step writes.
type Changes struct {
	Result
	Movements []Movement
	Levels    []Stock // the stock that has changed
	Unchanged bool    // nothing has changed: it was so already
}

// A Rule decides what a step changes. It reads no clock and makes no ids, so a step may call it again.
type Rule func(State) (Changes, error)

// Limits of what one customer may take off sale without paying. 0: no limit.
type Limits struct {
	Open  int64 // open reservations
	Units int64 // units in them
}

func (l Limits) check(s State, lines []Line) error {
	if l.Open > 0 && s.Open >= l.Open {
		return &TooManyError{OpenReservations, l.Open, 0}
	}
	var units int64
	for _, line := range lines {
		units += line.Quantity
	}
	if l.Units > 0 && s.OpenUnits+units > l.Units {
		return &TooManyError{ReservedUnits, l.Units, max(0, l.Units-s.OpenUnits)}
	}
	return nil
}

// Place sells the lines of a new order.
func Place(o Order) Rule {
	return func(s State) (Changes, error) {
		if err := s.mayHave(o.Lines); err != nil {
			return Changes{}, err
		}
		o.State, o.CreatedAt = Placed, s.Now
		b := newBooks(s)
		b.moveAll(Sell, o.Lines, o.ID, o.Customer)
		return b.result(Result{Order: &o})
	}
}

// CancelOrder returns the units of an order to stock, once.
func CancelOrder(customer string) Rule {
	return func(s State) (Changes, error) {
		if s.Order == nil || s.Order.Customer != customer {
			return Changes{}, ErrNotFound
		}
		o := *s.Order
		if o.State == Canceled {
			return unchanged(Result{Order: &o})
		}
		o.State, o.CanceledAt = Canceled, &s.Now
		b := newBooks(s)
		b.moveAll(Return, o.Lines, o.ID, customer)
		return b.result(Result{Order: &o})
	}
}

// Reserve holds the lines of a new reservation. The limits are checked first: more stock would not help a customer who
// is over them.
func Reserve(r Reservation, ttl time.Duration, limits Limits) Rule {
	return func(s State) (Changes, error) {
		if err := limits.check(s, r.Lines); err != nil {
			return Changes{}, err
		}
		if err := s.mayHave(r.Lines); err != nil {
			return Changes{}, err
		}
		r.State, r.CreatedAt, r.ExpiresAt = Held, s.Now, s.Now.Add(ttl)
		b := newBooks(s)
		b.moveAll(Hold, r.Lines, r.ID, r.Customer)
		return b.result(Result{Reservation: &r})
	}
}

// ConfirmReservation turns a reservation into the order with this id. If it has expired, because the payment came late,
// its units are taken from stock again, if they are there and the customer may have them.
func ConfirmReservation(customer, orderID string) Rule {
	return func(s State) (Changes, error) {
		r, err := s.reservationOf(customer)
		if err != nil {
			return Changes{}, err
		}
		b := newBooks(s)
		switch state := r.StateAt(s.Now); state {
		case Held:
			b.moveAll(Confirm, r.Lines, r.ID, customer)
		case Expired:
			if r.State == Held { // and no sweeper has ended it yet
				b.moveAll(Expire, r.Lines, r.ID, customer)
			}
			if err := b.after.mayHave(r.Lines); err != nil {
				return Changes{}, fmt.Errorf("%w: %w", ErrExpired, err)
			}
			b.moveAll(Sell, r.Lines, orderID, customer)
		case Confirmed:
			o := orderOf(r)
			return unchanged(Result{Order: &o})
		default:
			return Changes{}, &StateError{state}
		}
		r.State, r.OrderID, r.EndedAt = Confirmed, orderID, &s.Now
		o := orderOf(r)
		return b.result(Result{Order: &o, Reservation: &r})
	}
}

// orderOf returns the order that the confirmed reservation r became, as it was then.
func orderOf(r Reservation) Order {
	return Order{
		ID: r.OrderID, Customer: r.Customer, State: Placed, Lines: r.Lines, ReservationID: r.ID,
		Late: !r.EndedAt.Before(r.ExpiresAt), CreatedAt: *r.EndedAt,
	}
}

// ExtendReservation makes a held reservation expire ttl from now, but no later than MaxTTL after it was made, so that
// units are not held for ever. It never makes it expire earlier.
func ExtendReservation(customer string, ttl time.Duration) Rule {
	return func(s State) (Changes, error) {
		r, err := s.reservationOf(customer)
		if err != nil {
			return Changes{}, err
		}
		if state := r.StateAt(s.Now); state != Held {
			return Changes{}, &StateError{state}
		}
		until := s.Now.Add(ttl)
		if last := r.CreatedAt.Add(MaxTTL); until.After(last) {
			until = last
		}
		if !until.After(r.ExpiresAt) {
			return unchanged(Result{Reservation: &r})
		}
		r.ExpiresAt, r.ExtendedAt = until, &s.Now
		return Changes{Result: Result{Reservation: &r}}, nil
	}
}

// CancelReservation returns the units of a reservation to stock, once.
func CancelReservation(customer string) Rule {
	return func(s State) (Changes, error) {
		r, err := s.reservationOf(customer)
		if err != nil {
			return Changes{}, err
		}
		switch state := r.StateAt(s.Now); state {
		case Held:
			r.State, r.EndedAt = Canceled, &s.Now
			b := newBooks(s)
			b.moveAll(Cancel, r.Lines, r.ID, customer)
			return b.result(Result{Reservation: &r})
		case Canceled:
			return unchanged(Result{Reservation: &r})
		default:
			return Changes{}, &StateError{state}
		}
	}
}

// ExpireReservation ends a reservation that has expired. It changes nothing if it has ended or was extended meanwhile.
func ExpireReservation(s State) (Changes, error) {
	if s.Reservation == nil || s.Reservation.State != Held || s.Now.Before(s.Reservation.ExpiresAt) {
		return unchanged(Result{})
	}
	r := *s.Reservation
	r.State, r.EndedAt = Expired, &s.Now
	b := newBooks(s)
	b.moveAll(Expire, r.Lines, r.ID, r.Customer)
	return b.result(Result{Reservation: &r})
}

// A Condition is the number of the last movement that a person has seen; AnyNumber: it does not matter.
type Condition int64

// AnyNumber is met by every stock.
const AnyNumber Condition = -1

func (c Condition) check(s Stock) error {
	if c != AnyNumber && int64(c) != s.Number {
		return ErrPrecondition
	}
	return nil
}

// SetStock makes quantity units available. It writes a movement even if there are as many: a person has counted.
func SetStock(sku string, quantity int64, reason string, c Condition) Rule {
	return func(s State) (Changes, error) {
		return receive(s, Set, sku, quantity-s.Stock[sku].Available, reason, c)
	}
}

// AdjustStock adds delta units, or takes them off.
func AdjustStock(sku string, delta int64, reason string, c Condition) Rule {
	return func(s State) (Changes, error) { return receive(s, Adjust, sku, delta, reason, c) }
}

func receive(s State, kind Kind, sku string, delta int64, reason string, c Condition) (Changes, error) {
	stock := s.Stock[sku]
	if err := c.check(stock); err != nil {
		return Changes{}, err
	}
	switch available := stock.Available + delta; {
	case available < 0:
		return Changes{}, ErrBelowZero
	case available > MaxStock:
		return Changes{}, ErrTooMany
	}
	b := newBooks(s)
	b.move(Movement{SKU: sku, Kind: kind, Reason: reason}, delta)
	after := b.after.Stock[sku]
	return b.result(Result{Stock: &after})
}

// SetPolicy limits what one customer may have of a SKU; 0: no limit. What customers have already, they keep.
func SetPolicy(sku string, perCustomer int64) Rule {
	return func(s State) (Changes, error) {
		stock, ok := s.Stock[sku]
		if !ok {
			return Changes{}, ErrUnknownSKU
		}
		stock.PerCustomer = perCustomer
		return Changes{Result: Result{Stock: &stock}, Levels: []Stock{stock}}, nil
	}
}

func (s State) reservationOf(customer string) (Reservation, error) {
	if s.Reservation == nil || s.Reservation.Customer != customer {
		return Reservation{}, ErrNotFound
	}
	return *s.Reservation, nil
}

// mayHave fails if a SKU is unknown, the customer would have too many of it, or not enough is in stock. The limit is
// checked before the stock: more stock would not help.
func (s State) mayHave(lines []Line) error {
	var short []Shortage
	for _, l := range lines {
		stock, ok := s.Stock[l.SKU]
		if !ok {
			return fmt.Errorf("%w: %s", ErrUnknownSKU, l.SKU)
		}
		if limit, taken := stock.PerCustomer, s.Taken[l.SKU]; limit > 0 && taken+l.Quantity > limit {
			return &LimitError{l.SKU, limit, max(0, limit-taken)}
		}
		if stock.Available < l.Quantity {
			short = append(short, Shortage{l.SKU, l.Quantity, stock.Available})
		}
	}
	if short != nil {
		return &ShortError{short}
	}
	return nil
}

// books collect the movements of a step, and the state after them.
type books struct {
	after   State
	changes Changes
	err     error
}

func newBooks(s State) *books {
	s.Stock, s.Taken = maps.Clone(s.Stock), maps.Clone(s.Taken)
	return &books{after: s}
}

// moveAll moves the units of all lines.
func (b *books) moveAll(kind Kind, lines []Line, ref, customer string) {
	for _, l := range lines {
		b.move(Movement{SKU: l.SKU, Kind: kind, Ref: ref, Customer: customer}, l.Quantity)
	}
}

// move adds a movement of this many units, and sets its number and time. No rule makes a counter negative: if one
// becomes so, the books were wrong before, and the step is refused.
func (b *books) move(m Movement, units int64) {
	stock := b.after.Stock[m.SKU]
	stock.SKU = m.SKU
	m.Number, m.At = stock.Number+1, b.after.Now
	m.Received, m.Available, m.Reserved, m.Sold = m.Kind.changes(units)
	if err := stock.Apply(m); err != nil && b.err == nil {
		b.err = err
	}
	b.after.Stock[m.SKU] = stock
	if b.after.Taken != nil {
		b.after.Taken[m.SKU] += m.Reserved + m.Sold
	}
	b.changes.Movements = append(b.changes.Movements, m)
}

// result returns the changes. Only the stock that has moved is written.
func (b *books) result(r Result) (Changes, error) {
	if b.err != nil {
		return Changes{}, b.err
	}
	moved := map[string]bool{}
	for _, m := range b.changes.Movements {
		moved[m.SKU] = true
	}
	for _, sku := range slices.Sorted(maps.Keys(moved)) {
		b.changes.Levels = append(b.changes.Levels, b.after.Stock[sku])
	}
	b.changes.Result = r
	return b.changes, nil
}

// unchanged answers a request for what is so already.
func unchanged(r Result) (Changes, error) { return Changes{Result: r, Unchanged: true}, nil }
