package checkout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// things calls do with every order and reservation of the evidence: those of replies, and those that are shown.
func things(e *checkout.Evidence, do func(*checkout.Thing)) {
	for i := range e.Records {
		if e.Records[i].Got != nil {
			do(e.Records[i].Got)
		}
	}
	for i := range e.Orders {
		do(&e.Orders[i])
	}
	for i := range e.Reservations {
		do(&e.Reservations[i])
	}
}

// moved calls do with every movement of the evidence, and with that in its event.
func moved(e *checkout.Evidence, do func(*checkout.Movement)) {
	for i := range e.Books {
		b := &e.Books[i]
		for k := range b.Movements {
			do(&b.Movements[k])
		}
		for k := range b.Events {
			do(&b.Events[k].Data)
		}
	}
}

// written adds a movement to a book as a store writes one: with its number, its event, and in the counters.
func written(b *checkout.Book, m checkout.Movement) {
	m.SKU, m.Number, m.At = b.Before.SKU, b.After.Number+1, b.Movements[len(b.Movements)-1].At
	b.After.Number++
	b.After.Received += m.Received
	b.After.Available += m.Available
	b.After.Reserved += m.Reserved
	b.After.Sold += m.Sold
	b.Movements = append(b.Movements, m)
	b.Events = append(b.Events, checkout.Event{ID: fmt.Sprintf("%s.%d", m.SKU, m.Number), Data: m})
}

// redate moves an order in time, wherever it is dated.
func redate(e *checkout.Evidence, id string, by time.Duration) {
	things(e, func(t *checkout.Thing) {
		if t.OrderID == id {
			t.CreatedAt = t.CreatedAt.Add(by)
		}
	})
	moved(e, func(m *checkout.Movement) {
		if m.Ref == id && m.Kind == "sell" {
			m.At = m.At.Add(by)
		}
	})
}

// lies changes the n-th reply to op that said it was done.
func lies(op checkout.Op, lie func(*checkout.Thing)) doctor {
	return func(e *checkout.Evidence, n int) bool {
		lie(record(e, n, doneBy(op)).Got)
		return true
	}
}

// other adds a unit to a cart.
func other(t *checkout.Thing) { t.Lines[0].Quantity++ }

// liars lists evidence of a service that writes, dates, says or shows what is not so.
func liars() map[string]row {
	placed := func(e *checkout.Evidence, n int) string { return record(e, n, doneBy(checkout.OpPlace)).Got.OrderID }
	return map[string]row{
		"units come from nowhere": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			written(&e.Books[n%len(e.Books)], checkout.Movement{Kind: "adjust", Received: 1, Available: 1})
			return true
		}},
		"units come with a reason of the run": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			written(&e.Books[n%len(e.Books)], checkout.Movement{
				Kind: "adjust", Received: 1, Available: 1, Reason: e.Run + "-v0-1",
			})
			return true
		}},
		"a stranger buys": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			b := &e.Books[n%len(e.Books)]
			if b.After.Available == 0 {
				return false
			}
			written(b, checkout.Movement{Kind: "sell", Available: -1, Sold: 1, Ref: "another's", Customer: "ann"})
			return true
		}},
		"a stranger gets units of an order back": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return"))
			b.Movements[i].Customer, b.Events[i].Data.Customer = "ann", "ann"
			return true
		}},
		"a movement is dated before its request": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("sell", "reserve", "confirm"))
			at := b.Movements[i].At.Add(-10 * time.Millisecond)
			b.Movements[i].At, b.Events[i].Data.At = at, at
			return true
		}},
		"a sale is dated before its request everywhere": {
			checkout.CheckSettled,
			func(e *checkout.Evidence, n int) bool {
				redate(e, placed(e, n), -10*time.Second)
				return true
			},
		},
		"an order is dated a day later everywhere": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			redate(e, placed(e, n), 24*time.Hour)
			return true
		}},
		"an order is shown dated a day later": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			o := &e.Orders[n%len(e.Orders)]
			o.CreatedAt = o.CreatedAt.Add(24 * time.Hour)
			return true
		}},
		"a reply dates an order a day later": {checkout.CheckTold, lies(checkout.OpPlace, func(t *checkout.Thing) {
			t.CreatedAt = t.CreatedAt.Add(24 * time.Hour)
		})},
		"a line was given back later than the others": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			lines := make(map[string]int)
			moved(e, func(m *checkout.Movement) { lines[m.Ref+m.Kind]++ })
			b, i := pick(e, n, func(m *checkout.Movement) bool {
				return slices.Contains([]string{"return", "cancel", "expire"}, m.Kind) && lines[m.Ref+m.Kind] > 2
			})
			at := b.Movements[i].At.Add(10 * time.Millisecond)
			b.Movements[i].At, b.Events[i].Data.At = at, at
			return true
		}},
		"two sales have changed places": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("sell"))
			m := &b.Movements[i]
			for k := range b.Movements {
				o := &b.Movements[k]
				if o.Kind != "sell" || o.Sold != m.Sold || o.At.Sub(m.At).Abs() < time.Second/2 {
					continue
				}
				m.Ref, o.Ref, m.Customer, o.Customer, m.At, o.At = o.Ref, m.Ref, o.Customer, m.Customer, o.At, m.At
				return true
			}
			return false
		}},
		"a delivery got another number": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			record(e, n, doneBy(checkout.OpDeliver)).Number++
			return true
		}},
		"a delivery has more units": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, doneBy(checkout.OpDeliver))
			moved(e, func(m *checkout.Movement) {
				if m.Reason == r.Key {
					m.Received++
					m.Available++
				}
			})
			for i := range e.Books {
				if b := &e.Books[i]; b.Before.SKU == r.Ref {
					b.After.Received++
					b.After.Available++
				}
			}
			return true
		}},
		"an extension extends nothing": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			id := record(e, n, doneBy(checkout.OpExtend)).Ref
			var was time.Time
			for i := range e.Records {
				if r := &e.Records[i]; r.Op == checkout.OpReserve && r.Got != nil && r.Got.ReservationID == id {
					was = r.Got.ExpiresAt
				}
			}
			things(e, func(t *checkout.Thing) {
				if t.ReservationID == id && !t.ExpiresAt.IsZero() {
					t.ExpiresAt = was
				}
			})
			return true
		}},
		"an extension is an hour longer": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			id := record(e, n, doneBy(checkout.OpExtend)).Ref
			var was time.Time
			for i := range e.Records {
				if r := &e.Records[i]; r.Op == checkout.OpReserve && r.Got != nil && r.Got.ReservationID == id {
					was = r.Got.ExpiresAt
				}
			}
			things(e, func(t *checkout.Thing) {
				if t.ReservationID == id && t.ExpiresAt.After(was) {
					t.ExpiresAt = t.ExpiresAt.Add(time.Hour)
				}
			})
			return true
		}},
		"a reservation lasts longer than was asked for": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			id := record(e, n, doneBy(checkout.OpReserve)).Got.ReservationID
			things(e, func(t *checkout.Thing) {
				if t.ReservationID == id && !t.ExpiresAt.IsZero() {
					t.ExpiresAt = t.ExpiresAt.Add(time.Second)
				}
			})
			return true
		}},
		"an order is said to be canceled": {
			checkout.CheckTold, lies(checkout.OpPlace, func(t *checkout.Thing) { t.State = "canceled" }),
		},
		"a cancellation says placed": {
			checkout.CheckTold, lies(checkout.OpCancel, func(t *checkout.Thing) { t.State = "placed" }),
		},
		"a reservation is said to be confirmed": {
			checkout.CheckTold, lies(checkout.OpReserve, func(t *checkout.Thing) { t.State = "confirmed" }),
		},
		"a cancellation names another order": {
			checkout.CheckTold, lies(checkout.OpCancel, func(t *checkout.Thing) { t.OrderID += "x" }),
		},
		"a confirmation names another reservation": {
			checkout.CheckTold, lies(checkout.OpConfirm, func(t *checkout.Thing) { t.ReservationID += "x" }),
		},
		"an order has other lines":       {checkout.CheckTold, lies(checkout.OpPlace, other)},
		"a confirmation has other lines": {checkout.CheckTold, lies(checkout.OpConfirm, other)},
		"a replay has other lines": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			other(record(e, n, func(r *checkout.Record) bool { return r.Replayed && r.Got != nil }).Got)
			return true
		}},
		"an order is shown with other lines": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			other(&e.Orders[n%len(e.Orders)])
			return true
		}},
		"a reservation is shown with other lines": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			other(&e.Reservations[n%len(e.Reservations)])
			return true
		}},
		"a reservation is not shown": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			e.Reservations[n%len(e.Reservations)] = checkout.Thing{}
			return true
		}},
		"sold out before anything was sold": {checkout.CheckRefusals, func(e *checkout.Evidence, n int) bool {
			attempts := make(map[int]int)
			for i := range e.Records {
				attempts[e.Records[i].Request]++
			}
			r := record(e, n, func(r *checkout.Record) bool {
				return r.Problem == "sold_out" && attempts[r.Request] == 1
			})
			e.StartedAt = e.StartedAt.Add(-time.Second) // the first are sent at once
			r.SentAt, r.DoneAt = e.StartedAt, e.StartedAt.Add(time.Microsecond)
			return true
		}},
		"the limit was reached before anything was sold": {
			checkout.CheckRefusals,
			func(e *checkout.Evidence, n int) bool {
				r := record(e, n, func(r *checkout.Record) bool {
					return r.Problem == "limit_reached" && r.Attempt == 1 && r.Lines != nil && most(r.Lines) <= e.Limit
				})
				e.StartedAt = e.StartedAt.Add(-time.Second) // the first are sent at once
				r.SentAt, r.DoneAt = e.StartedAt, e.StartedAt.Add(time.Microsecond)
				return true
			},
		},
	}
}

// most returns the most units of one SKU in a cart.
func most(lines []checkout.Line) (n int64) {
	for _, units := range merge(lines) {
		n = max(n, units)
	}
	return n
}

// reclock changes every date of the records.
func reclock(e *checkout.Evidence, date func(time.Time) time.Time) {
	e.StartedAt, e.ReadAt = date(e.StartedAt), date(e.ReadAt)
	for i := range e.Records {
		e.Records[i].SentAt, e.Records[i].DoneAt = date(e.Records[i].SentAt), date(e.Records[i].DoneAt)
	}
}

// Our clock may be ahead of the store's, or behind, and go faster or slower: nobody is accused for that, and the
// verdict stands. If it is set during the run, there is no verdict.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	_, r := run(t, plan())
	base := &r.Evidence
	for _, ahead := range []time.Duration{
		-24 * time.Hour, -15 * time.Minute, -3 * time.Second, -time.Millisecond, 3 * time.Second, 15 * time.Minute,
		24 * time.Hour,
	} {
		for _, faster := range []float64{-0.05, 0, 0.05} {
			e := clone(base)
			reclock(e, func(at time.Time) time.Time {
				return at.Add(ahead + time.Duration(faster*float64(at.Sub(base.StartedAt))))
			})
			if v := checkout.Judge(e); v.Finding != loadtest.Holds {
				t.Errorf("ahead by %v, and by %v for each second: %v", ahead, faster, failures(&v))
			}
		}
		e, middle := clone(base), base.Records[len(base.Records)/2].SentAt
		reclock(e, func(at time.Time) time.Time {
			if at.Before(middle) && ahead < 0 || at.After(middle) && ahead > 0 {
				return at.Add(ahead)
			}
			return at
		})
		want := loadtest.Undecided
		if ahead.Abs() < time.Second {
			want = loadtest.Holds
		}
		if v := checkout.Judge(e); v.Finding != want {
			t.Errorf("set by %v: %s: %v", ahead, v.Sentence, failures(&v))
		}
	}
}
