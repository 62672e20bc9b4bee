package service_test

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/orders/service"
)

var (
	now    = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	before = now.Add(-time.Second)
)

// TestReservations: what each action does in each state of a reservation of two units.
func TestReservations(t *testing.T) {
	const held, due, confirmed, canceled, expired = "held", "due", "confirmed", "canceled", "expired"
	lines := []service.Line{{SKU: "a", Quantity: 2}}
	actions := map[string]service.Rule{
		"confirm": service.ConfirmReservation("ann", "o"), "cancel": service.CancelReservation("ann"),
		"sweep": service.ExpireReservation, "confirm by bob": service.ConfirmReservation("bob", "o"),
	}
	for _, c := range []struct {
		state, action         string
		available             int64
		err                   error
		late                  bool
		available2, res, sold int64 // after it
	}{
		{held, "confirm", 0, nil, false, 0, 0, 2},
		{held, "cancel", 0, nil, false, 2, 0, 0},
		{held, "sweep", 0, nil, false, 0, 2, 0},
		{held, "confirm by bob", 0, service.ErrNotFound, false, 0, 2, 0},
		{due, "confirm", 0, nil, true, 0, 0, 2},
		{due, "cancel", 0, new(service.StateError), false, 0, 2, 0},
		{due, "sweep", 0, nil, false, 2, 0, 0},
		{confirmed, "confirm", 0, nil, false, 0, 0, 2},
		{confirmed, "cancel", 0, new(service.StateError), false, 0, 0, 2},
		{confirmed, "sweep", 0, nil, false, 0, 0, 2},
		{canceled, "confirm", 2, new(service.StateError), false, 2, 0, 0},
		{canceled, "cancel", 2, nil, false, 2, 0, 0},
		{canceled, "sweep", 2, nil, false, 2, 0, 0},
		{expired, "confirm", 2, nil, true, 0, 0, 2},
		{expired, "confirm", 1, service.ErrExpired, false, 1, 0, 0},
		{expired, "cancel", 2, new(service.StateError), false, 2, 0, 0},
		{expired, "sweep", 2, nil, false, 2, 0, 0},
	} {
		r := service.Reservation{
			ID: "r", Customer: "ann", State: c.state, Lines: lines, ExpiresAt: now.Add(time.Minute),
		}
		stock := service.Stock{SKU: "a", Available: c.available, Number: 7}
		s := service.State{Now: now, Reservation: &r}
		switch c.state {
		case held, due:
			r.State, stock.Reserved = service.Held, 2
		case confirmed:
			stock.Sold, r.OrderID, r.EndedAt = 2, "o", &before
		}
		if c.state != held { // the time is over, so that only the state keeps what has ended from ending again
			r.ExpiresAt = now
		}
		stock.Received = stock.Available + stock.Reserved + stock.Sold
		s.Stock = map[string]service.Stock{"a": stock}
		changes, err := actions[c.action](s)
		if !is(err, c.err) {
			t.Errorf("%s, %s: %v, want %v", c.state, c.action, err, c.err)
		}
		for i, m := range changes.Movements {
			if err := stock.Apply(m); err != nil || m.Number != int64(8+i) {
				t.Errorf("%s, %s: movement %+v: %v", c.state, c.action, m, err)
			}
		}
		if stock.Available != c.available2 || stock.Reserved != c.res || stock.Sold != c.sold {
			t.Errorf("%s, %s: %+v", c.state, c.action, stock)
		}
		if o := changes.Order; o != nil && o.Late != c.late {
			t.Errorf("%s, %s: late %v", c.state, c.action, o.Late)
		}
	}
}

// is reports whether err is want, or a StateError if that is wanted.
func is(err, want error) bool {
	if _, ok := want.(*service.StateError); ok {
		return errors.As(err, new(*service.StateError))
	}
	return errors.Is(err, want)
}
