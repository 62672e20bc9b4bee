package service_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/orders/service"
)

// A shop is books that are only changed by rules, as a store does it: what a rule returns is written whole, or not at
// all.
type shop struct {
	now          time.Time
	stock        map[string]service.Stock
	movements    map[string][]service.Movement
	orders       map[string]service.Order
	reservations map[string]service.Reservation
}

func newShop() *shop {
	return &shop{
		now: now, stock: map[string]service.Stock{}, movements: map[string][]service.Movement{},
		orders: map[string]service.Order{}, reservations: map[string]service.Reservation{},
	}
}

// step runs a rule about an order and a reservation, each of which may be "".
func (s *shop) step(rule service.Rule, order, reservation, customer string) error {
	state := service.State{Now: s.now, Stock: s.stock, Taken: map[string]int64{}}
	if o, ok := s.orders[order]; ok {
		state.Order = &o
	}
	if r, ok := s.reservations[reservation]; ok {
		state.Reservation = &r
	}
	for _, r := range s.reservations {
		if r.State == service.Held && r.Customer == customer {
			state.Open++
			state.OpenUnits += r.Lines[0].Quantity
		}
	}
	for sku, all := range s.movements {
		for _, m := range all {
			if m.Customer == customer {
				state.Taken[sku] += m.Reserved + m.Sold
			}
		}
	}
	c, err := rule(state)
	if err != nil || c.Unchanged {
		return err
	}
	for _, m := range c.Movements {
		s.movements[m.SKU] = append(s.movements[m.SKU], m)
	}
	for _, level := range c.Levels {
		s.stock[level.SKU] = level
	}
	if c.Order != nil {
		s.orders[c.Order.ID] = *c.Order
	}
	if c.Reservation != nil {
		s.reservations[c.Reservation.ID] = *c.Reservation
	}
	return nil
}

// check compares the stock with the movements, and with what the orders and reservations have.
func (s *shop) check() error {
	for sku, stock := range s.stock {
		sum := service.Stock{SKU: sku, PerCustomer: stock.PerCustomer}
		for i, m := range s.movements[sku] {
			if m.Number != int64(i+1) {
				return fmt.Errorf("%s: movement %d has the number %d", sku, i+1, m.Number)
			}
			if err := sum.Apply(m); err != nil {
				return err
			}
		}
		if sum != stock {
			return fmt.Errorf("the movements add up to %+v, and the stock is %+v", sum, stock)
		}
		var reserved, sold int64
		for _, r := range s.reservations {
			for _, l := range r.Lines {
				if r.State == service.Held && l.SKU == sku {
					reserved += l.Quantity
				}
			}
		}
		for _, o := range s.orders {
			for _, l := range o.Lines {
				if o.State == service.Placed && l.SKU == sku {
					sold += l.Quantity
				}
			}
		}
		if reserved != stock.Reserved || sold != stock.Sold {
			return fmt.Errorf("reservations have %d and orders %d of %+v", reserved, sold, stock)
		}
	}
	return nil
}

// FuzzLaw: whatever customers and people do, in whatever order and at whatever time, the law holds, and the limits.
func FuzzLaw(f *testing.F) {
	f.Add([]byte{0, 9, 0, 1, 2, 0, 3, 1, 0, 5, 0, 0, 8, 0, 200, 6, 0, 0})
	f.Add([]byte{0, 3, 1, 3, 2, 1, 9, 2, 0, 3, 2, 0, 8, 255, 255, 10, 0, 0, 5, 0, 0, 2, 0, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		s, ids := newShop(), 0
		limits := service.Limits{Open: 3, Units: 12}
		for len(script) >= 3 && ids < 200 {
			what, a, b := script[0], script[1], script[2]
			script = script[3:]
			sku, who := string('a'+rune(a%2)), string('x'+rune(b%2))
			pick := fmt.Sprint(int(a) % (ids + 1))
			ids++
			id := fmt.Sprint(ids)
			cart := service.Cart(
				[]service.Line{{SKU: sku, Quantity: int64(b%5) + 1}, {SKU: "a", Quantity: int64(a % 3)}},
			)
			if cart[0].Quantity == 0 {
				cart = cart[1:]
			}
			var err error
			switch what % 11 {
			case 0:
				err = s.step(service.SetStock(sku, int64(b), "", service.AnyNumber), "", "", "")
			case 1:
				err = s.step(service.AdjustStock(sku, int64(b)-128, "", service.AnyNumber), "", "", "")
			case 2:
				err = s.step(service.Place(service.Order{ID: id, Customer: who, Lines: cart}), "", "", who)
			case 3:
				ttl := time.Duration(a) * time.Minute
				err = s.step(service.Reserve(service.Reservation{ID: id, Customer: who, Lines: cart}, ttl, limits), "",
					"", who)
			case 4:
				err = s.step(service.CancelOrder(who), pick, "", who)
			case 5:
				err = s.step(service.ConfirmReservation(who, id), "", pick, who)
			case 6:
				err = s.step(service.CancelReservation(who), "", pick, who)
			case 7:
				err = s.step(service.ExtendReservation(who, time.Duration(b)*time.Hour), "", pick, who)
			case 8:
				s.now = s.now.Add(time.Duration(b) * time.Minute)
			case 9:
				err = s.step(service.SetPolicy(sku, int64(b)), "", "", "")
			case 10:
				err = s.step(service.ExpireReservation, "", pick, "")
			}
			if errors.Is(err, service.ErrUnbalanced) {
				t.Fatal(err)
			}
			if err := s.check(); err != nil {
				t.Fatal(err)
			}
			open := map[string]int64{}
			for _, r := range s.reservations {
				if r.ExpiresAt.After(r.CreatedAt.Add(service.MaxTTL)) {
					t.Fatalf("%+v expires too late", r)
				}
				if r.State == service.Held {
					open[r.Customer]++
				}
			}
			if max(open["x"], open["y"]) > limits.Open {
				t.Fatalf("open reservations: %v", open)
			}
		}
	})
}

// TestLimits: exactly at a limit, and one beyond it.
func TestLimits(t *testing.T) {
	lines := []service.Line{{SKU: "a", Quantity: 3}}
	for _, c := range []struct {
		taken, perCustomer, open, units int64
		want                            string
	}{
		{0, 0, 0, 0, "<nil>"},
		{7, 10, 0, 0, "<nil>"},
		{8, 10, 0, 0, "a customer may have 10 of a, and may still have 2"},
		{12, 10, 0, 0, "a customer may have 10 of a, and may still have 0"},
		{0, 0, 4, 0, "<nil>"},
		{0, 0, 5, 0, "a customer may have 5 (open) in reservations, and may still have 0"},
		{0, 0, 0, 17, "<nil>"},
		{0, 0, 0, 18, "a customer may have 20 (units) in reservations, and may still have 2"},
		{0, 0, 0, 23, "a customer may have 20 (units) in reservations, and may still have 0"},
	} {
		s := service.State{
			Now:   now,
			Stock: map[string]service.Stock{"a": {SKU: "a", Received: 9, Available: 9, PerCustomer: c.perCustomer}},
			Taken: map[string]int64{"a": c.taken}, Open: c.open, OpenUnits: c.units,
		}
		rule := service.Reserve(service.Reservation{ID: "r", Lines: lines}, time.Minute,
			service.Limits{Open: 5, Units: 20})
		if _, err := rule(s); fmt.Sprint(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
