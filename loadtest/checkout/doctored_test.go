package checkout_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/servertest"
)

// A doctor changes one thing in honest evidence, at a place that the number chooses. It returns false if there is none.
type doctor func(e *checkout.Evidence, n int) bool

// pick returns the n-th movement that ok accepts, by its book and index. Without one, the book is nil.
func pick(e *checkout.Evidence, n int, ok func(*checkout.Movement) bool) (*checkout.Book, int) {
	type spot struct {
		b *checkout.Book
		i int
	}
	var spots []spot
	for k := range e.Books {
		b := &e.Books[k]
		for i := range b.Movements {
			if ok(&b.Movements[i]) {
				spots = append(spots, spot{b, i})
			}
		}
	}
	if len(spots) == 0 {
		return nil, 0
	}
	return spots[n%len(spots)].b, spots[n%len(spots)].i
}

func anything(*checkout.Movement) bool { return true }

// kind accepts the movements of those kinds of an order or a reservation.
func kind(kinds ...string) func(*checkout.Movement) bool {
	return func(m *checkout.Movement) bool { return slices.Contains(kinds, m.Kind) && m.Ref != "" }
}

func delivery(m *checkout.Movement) bool { return m.Kind == "adjust" && m.Reason != "" }

// ofSeveral accepts the movements of those kinds of a cart with several SKUs.
func ofSeveral(e *checkout.Evidence, kinds ...string) func(*checkout.Movement) bool {
	lines := make(map[string]int)
	for i := range e.Books {
		for k := range e.Books[i].Movements {
			lines[e.Books[i].Movements[k].Ref+e.Books[i].Movements[k].Kind]++
		}
	}
	return func(m *checkout.Movement) bool { return kind(kinds...)(m) && lines[m.Ref+m.Kind] > 1 }
}

// inBook changes a book at a movement that ok accepts.
func inBook(ok func(*checkout.Movement) bool, change func(b *checkout.Book, i int)) doctor {
	return func(e *checkout.Evidence, n int) bool {
		b, i := pick(e, n, ok)
		change(b, i)
		return true
	}
}

// movement changes a movement that ok accepts, and not its event.
func movement(ok func(*checkout.Movement) bool, change func(*checkout.Movement)) doctor {
	return inBook(ok, func(b *checkout.Book, i int) { change(&b.Movements[i]) })
}

// event changes an event, and not its movement.
func event(change func(*checkout.Event)) doctor {
	return inBook(anything, func(b *checkout.Book, i int) { change(&b.Events[i]) })
}

// announced changes a movement that ok accepts, and its event.
func announced(ok func(*checkout.Movement) bool, change func(*checkout.Movement)) doctor {
	return inBook(ok, func(b *checkout.Book, i int) { change(&b.Movements[i]); change(&b.Events[i].Data) })
}

// record returns the n-th record that ok accepts, or nil.
func record(e *checkout.Evidence, n int, ok func(*checkout.Record) bool) *checkout.Record {
	var list []*checkout.Record
	for i := range e.Records {
		if ok(&e.Records[i]) {
			list = append(list, &e.Records[i])
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[n%len(list)]
}

func doneBy(op checkout.Op) func(*checkout.Record) bool {
	return func(r *checkout.Record) bool {
		return r.Outcome == checkout.Done && r.Op == op && !r.Again && !r.Replayed
	}
}

// attempt changes a record that ok accepts.
func attempt(ok func(*checkout.Record) bool, change func(*checkout.Record)) doctor {
	return func(e *checkout.Evidence, n int) bool {
		change(record(e, n, ok))
		return true
	}
}

// unmade takes the movements of a kind of an order or a reservation out of the books, and shows it in that state.
func unmade(of, state string) doctor {
	return func(e *checkout.Evidence, n int) bool {
		b, i := pick(e, n, kind(of))
		id := b.Movements[i].Ref
		for k := range e.Books {
			e.Books[k].Movements = slices.DeleteFunc(e.Books[k].Movements, func(m checkout.Movement) bool {
				return m.Ref == id && m.Kind == of
			})
		}
		for _, list := range [][]checkout.Thing{e.Orders, e.Reservations} {
			for k := range list {
				if t := &list[k]; t.OrderID == id || t.ReservationID == id && t.OrderID == "" {
					t.State = state
				}
			}
		}
		return true
	}
}

// unasked takes a request for op out of the history.
func unasked(op checkout.Op) doctor {
	return func(e *checkout.Evidence, n int) bool {
		request := record(e, n, doneBy(op)).Request
		e.Records = slices.DeleteFunc(e.Records, func(r checkout.Record) bool { return r.Request == request })
		return true
	}
}

// answers changes how all attempts of a request for op ended that was done, the last one of its visit.
func answers(way checkout.Way, op checkout.Op, outcome checkout.Outcome) doctor {
	return func(e *checkout.Evidence, n int) bool {
		request := record(e, n, func(r *checkout.Record) bool { return r.Way == way && doneBy(op)(r) }).Request
		for i := range e.Records {
			if r := &e.Records[i]; r.Request == request {
				r.Outcome, r.Problem, r.Got, r.Number = outcome, "reservation_expired", nil, 0
			}
		}
		return true
	}
}

// lies changes a reply to op that said it was done.
func lies(op checkout.Op, lie func(*checkout.Thing)) doctor {
	return attempt(doneBy(op), func(r *checkout.Record) { lie(r.Got) })
}

// shows changes an order, or a reservation, as the service shows it.
func shows(reservations bool, lie func(*checkout.Thing)) doctor {
	return func(e *checkout.Evidence, n int) bool {
		list := e.Orders
		if reservations {
			list = e.Reservations
		}
		lie(&list[n%len(list)])
		return true
	}
}

// things calls do with every order and reservation of the evidence: those of replies, and those that are shown.
func things(e *checkout.Evidence, do func(*checkout.Thing)) {
	for i := range e.Records {
		if e.Records[i].Got != nil {
			do(e.Records[i].Got)
		}
	}
	for _, list := range [][]checkout.Thing{e.Orders, e.Reservations} {
		for i := range list {
			do(&list[i])
		}
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

// writes adds a movement to a book as a store writes one: with its number, its event, and in the counters.
func writes(m checkout.Movement) doctor {
	return func(e *checkout.Evidence, n int) bool {
		b, m := &e.Books[n%len(e.Books)], m
		if m.Available < -b.After.Available {
			return false
		}
		m.SKU, m.Number, m.At = b.Before.SKU, b.After.Number+1, b.Movements[len(b.Movements)-1].At
		if m.Reason != "" {
			m.Reason = e.Run + m.Reason
		}
		b.After.Add(&m)
		b.Movements = append(b.Movements, m)
		b.Events = append(b.Events, checkout.Event{ID: fmt.Sprintf("%s.%d", m.SKU, m.Number), Data: m})
		return true
	}
}

// swaps exchanges two movements of one of these kinds and of one SKU, made at different times.
func swaps(kinds ...string) doctor {
	return func(e *checkout.Evidence, n int) bool {
		b, i := pick(e, n, kind(kinds...))
		m := &b.Movements[i]
		for k := range b.Movements {
			o := &b.Movements[k]
			alike := o.Kind == m.Kind && o.Reserved == m.Reserved && o.Sold == m.Sold
			if !alike || o.At.Sub(m.At).Abs() < 50*time.Millisecond {
				continue
			}
			m.Ref, o.Ref, m.Customer, o.Customer, m.At, o.At = o.Ref, m.Ref, o.Customer, m.Customer, o.At, m.At
			return true
		}
		return false
	}
}

// redates moves a placed order in time, wherever it is dated.
func redates(by time.Duration) doctor {
	return func(e *checkout.Evidence, n int) bool {
		id := record(e, n, doneBy(checkout.OpPlace)).Got.OrderID
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
		return true
	}
}

// extends changes the expiry of an extended reservation everywhere. was is the expiry before.
func extends(change func(expires, was time.Time) time.Time) doctor {
	return func(e *checkout.Evidence, n int) bool {
		id := record(e, n, doneBy(checkout.OpExtend)).Ref
		was := record(e, 0, func(r *checkout.Record) bool {
			return r.Op == checkout.OpReserve && r.Got != nil && r.Got.ReservationID == id
		}).Got.ExpiresAt
		things(e, func(t *checkout.Thing) {
			if t.ReservationID == id && !t.ExpiresAt.IsZero() {
				t.ExpiresAt = change(t.ExpiresAt, was)
			}
		})
		return true
	}
}

// tooEarly moves a refusal that ok accepts before everything else, when nothing was sold.
func tooEarly(ok func(e *checkout.Evidence, r *checkout.Record) bool) doctor {
	return func(e *checkout.Evidence, n int) bool {
		attempts := make(map[int]int)
		for i := range e.Records {
			attempts[e.Records[i].Request]++
		}
		r := record(e, n, func(r *checkout.Record) bool { return attempts[r.Request] == 1 && ok(e, r) })
		r.SentAt = e.Records[0].SentAt.Add(-time.Second)
		r.DoneAt = r.SentAt.Add(time.Microsecond)
		return true
	}
}

// other adds a unit to a cart.
func other(t *checkout.Thing) { t.Lines[0].Quantity++ }

// aDayLater changes when a thing was made.
func aDayLater(t *checkout.Thing) { t.CreatedAt = t.CreatedAt.Add(24 * time.Hour) }

// A row is what may be wrong in evidence, with the check that finds it.
type row struct {
	check string
	do    doctor
}

// doctors lists evidence that lacks something, or has something that cannot be.
func doctors() map[string]row {
	return map[string]row{
		"a movement is missing": {checkout.CheckLaw, inBook(anything, func(b *checkout.Book, i int) {
			b.Movements = slices.Delete(b.Movements, i, i+1)
		})},
		"a movement is there twice": {checkout.CheckLaw, inBook(anything, func(b *checkout.Book, i int) {
			b.Movements = slices.Insert(b.Movements, i, b.Movements[i])
		})},
		"the counters are off": {checkout.CheckLaw, inBook(anything, func(b *checkout.Book, _ int) {
			b.After.Available++
			b.After.Received++
		})},
		"a number is left out": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			e.Books[n%len(e.Books)].After.Number++
			return writes(checkout.Movement{Kind: "adjust", Received: 1, Available: 1})(e, n)
		}},
		"there were fewer units than were sold": {checkout.CheckLaw, inBook(anything, func(b *checkout.Book, _ int) {
			for _, c := range []*checkout.Counts{&b.Before, &b.After} {
				c.Received, c.Available = c.Received-1000, c.Available-1000
			}
		})},
		"nothing is sold":   {checkout.CheckLaw, writes(checkout.Movement{Kind: "sell", Customer: "ann"})},
		"a kind is unknown": {checkout.CheckLaw, movement(anything, func(m *checkout.Movement) { m.Kind = "gift" })},
		"a sale is called a reservation": {checkout.CheckLaw, movement(
			kind("sell"), func(m *checkout.Movement) { m.Kind = "reserve" })},
		"a movement is of another SKU": {checkout.CheckLaw, movement(
			anything, func(m *checkout.Movement) { m.SKU = "another" })},
		"an order sold more than was asked for": {checkout.CheckCarts, movement(
			kind("sell", "reserve"), func(m *checkout.Movement) {
				m.Available--
				if m.Kind == "sell" {
					m.Sold++
				} else {
					m.Reserved++
				}
			})},
		"an order is of nobody": {checkout.CheckKeys, movement(
			kind("sell"), func(m *checkout.Movement) { m.Ref = "nobody's" })},
		"two keys got one order": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			other := *record(e, n, doneBy(checkout.OpPlace))
			other.Request, other.Key = 1<<20, "another"
			e.Records = append(e.Records, other)
			return true
		}},
		"one key got two orders": {checkout.CheckKeys, attempt(
			func(r *checkout.Record) bool { return r.Replayed && r.Again && r.Got != nil },
			func(r *checkout.Record) { r.Got.OrderID += "x" })},
		"a replay is said to be none": {checkout.CheckKeys, attempt(
			func(r *checkout.Record) bool { return r.Replayed && r.Again && r.Got != nil },
			func(r *checkout.Record) { r.Replayed = false })},
		"a key that was used for another cart sold": {checkout.CheckKeys, attempt(
			func(r *checkout.Record) bool { return r.Misuse }, func(r *checkout.Record) {
				r.Outcome, r.Got = checkout.Done, &checkout.Thing{OrderID: "new", Customer: r.Customer, Lines: r.Lines}
			})},
		"an order was not sold":       {checkout.CheckTold, unmade("sell", "placed")},
		"a reservation was not made":  {checkout.CheckTold, unmade("reserve", "canceled")},
		"a cancellation was not made": {checkout.CheckTold, unmade("return", "placed")},
		"a release was not made":      {checkout.CheckTold, unmade("cancel", "held")},
		"an expiry was not made": {checkout.CheckExpiry, func(e *checkout.Evidence, n int) bool {
			e.ReadAt = e.ReadAt.Add(5 * time.Second)
			return unmade("expire", "held")(e, n)
		}},
		"nobody asked for a cancellation": {checkout.CheckTold, unasked(checkout.OpCancel)},
		"nobody asked for a release":      {checkout.CheckTold, unasked(checkout.OpRelease)},
		"half of an order was not sold": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			return inBook(ofSeveral(e, "sell"), func(b *checkout.Book, i int) {
				b.Movements = slices.Delete(b.Movements, i, i+1)
			})(e, n)
		}},
		"an order sold what was not asked for": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, doneBy(checkout.OpPlace))
			return merge(r.Lines)[e.Books[n%len(e.Books)].Before.SKU] == 0 && writes(checkout.Movement{
				Kind: "sell", Available: -1, Sold: 1, Ref: r.Got.OrderID, Customer: r.Customer,
			})(e, n)
		}},
		"a reservation is shown as another": {checkout.CheckTold, shows(true, func(t *checkout.Thing) {
			t.State = map[string]string{"confirmed": "held"}[t.State]
		})},
		"a delivery is not in the ledger": {checkout.CheckTold, movement(
			delivery, func(m *checkout.Movement) { m.Reason = "another" })},
		"a delivery is of a customer": {checkout.CheckTold, announced(
			delivery, func(m *checkout.Movement) { m.Customer = "ann" })},
		"a delivery is of an order": {checkout.CheckTold, announced(
			delivery, func(m *checkout.Movement) { m.Ref = "another" })},
		"a delivery sets the stock": {checkout.CheckTold, announced(
			delivery, func(m *checkout.Movement) { m.Kind = "set" })},
		"a delivery was written twice": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, delivery)
			m := b.Movements[i]
			m.Reason = strings.TrimPrefix(m.Reason, e.Run)
			return writes(m)(e, n)
		}},
		"a sale has a reason": {checkout.CheckTold, announced(
			kind("sell"), func(m *checkout.Movement) { m.Reason = "a gift" })},
		"an order is late everywhere and was not": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			id := record(e, n, doneBy(checkout.OpConfirm)).Got.OrderID
			things(e, func(t *checkout.Thing) { t.Late = t.Late != (t.OrderID == id && t.State != "confirmed") })
			return true
		}},
		"a reservation was confirmed after its end": {checkout.CheckExpiry, movement(
			kind("confirm"), func(m *checkout.Movement) { m.At = m.At.Add(time.Hour) })},
		"the last event is missing": {checkout.CheckEvents, inBook(anything, func(b *checkout.Book, _ int) {
			b.Events = b.Events[:len(b.Events)-1]
		})},
		"an event is missing": {checkout.CheckEvents, inBook(anything, func(b *checkout.Book, i int) {
			b.Events = slices.Delete(b.Events, i, i+1)
		})},
		"an event has another id": {checkout.CheckEvents, event(func(e *checkout.Event) { e.ID = "another" })},
		"an event is dated a second later": {checkout.CheckEvents, event(func(e *checkout.Event) {
			e.Data.At = e.Data.At.Add(time.Second)
		})},
		"an event came twice under two ids": {checkout.CheckEvents, inBook(anything, func(b *checkout.Book, i int) {
			again := b.Events[i]
			again.ID = "another"
			b.Events = slices.Insert(b.Events, i+1, again)
		})},
		"an event came twice": {checkout.CheckEvents, inBook(anything, func(b *checkout.Book, i int) {
			b.Events = slices.Insert(b.Events, i, b.Events[i])
		})},
		"an order was never answered": {
			checkout.CheckSettled, answers(checkout.Buy, checkout.OpPlace, checkout.Unknown),
		},
		"an extension was never answered": {
			checkout.CheckSettled, answers(checkout.Think, checkout.OpExtend, checkout.Unknown),
		},
		"a reservation is said to have expired": {
			checkout.CheckRefusals, answers(checkout.Pay, checkout.OpConfirm, checkout.Refused),
		},
		"a confirmation was never answered": {
			checkout.CheckSettled, answers(checkout.Pay, checkout.OpConfirm, checkout.Unknown),
		},
		"a delivery was refused": {
			checkout.CheckTold, answers(checkout.Deliver, checkout.OpDeliver, checkout.Refused),
		},
		"the books were not read": {checkout.CheckSettled, func(e *checkout.Evidence, _ int) bool {
			e.Unread.EN = "no"
			return true
		}},

		// The service writes what nobody asked for.
		"units come from nowhere": {
			checkout.CheckSettled, writes(checkout.Movement{Kind: "adjust", Received: 1, Available: 1}),
		},
		"units come with a reason of the run": {
			checkout.CheckKeys, writes(checkout.Movement{Kind: "adjust", Received: 1, Available: 1, Reason: "-v0-1"}),
		},
		"a stranger sets the stock": {
			checkout.CheckSettled, writes(checkout.Movement{Kind: "set", Received: 1, Available: 1}),
		},
		"a stranger buys": {checkout.CheckSettled, writes(checkout.Movement{
			Kind: "sell", Available: -1, Sold: 1, Ref: "another's", Customer: "ann",
		})},
		"a stranger gets units of an order back": {checkout.CheckTold, announced(
			kind("return"), func(m *checkout.Movement) { m.Customer = "ann" })},
		"a delivery was for another SKU": {
			checkout.CheckTold, attempt(doneBy(checkout.OpDeliver), func(r *checkout.Record) { r.Ref = "another" }),
		},
		"a delivery got another number": {
			checkout.CheckTold, attempt(doneBy(checkout.OpDeliver), func(r *checkout.Record) { r.Number++ }),
		},
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

		// It dates what it does wrongly.
		"a movement is dated before its request": {checkout.CheckTold, announced(
			kind("sell", "reserve", "confirm"),
			func(m *checkout.Movement) { m.At = m.At.Add(-10 * time.Millisecond) })},
		"a sale is dated before its request everywhere": {checkout.CheckSettled, redates(-10 * time.Second)},
		"an order is dated a day later everywhere":      {checkout.CheckSettled, redates(24 * time.Hour)},
		"a cancellation dates the order a day later":    {checkout.CheckTold, lies(checkout.OpCancel, aDayLater)},
		"a release names another end": {checkout.CheckTold, lies(checkout.OpRelease, func(t *checkout.Thing) {
			t.ExpiresAt = t.ExpiresAt.Add(time.Hour)
		})},
		"an order is shown dated a day later": {checkout.CheckTold, shows(false, aDayLater)},
		"an expiry is dated a day later everywhere": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("expire"))
			id := b.Movements[i].Ref
			moved(e, func(m *checkout.Movement) {
				if m.Ref == id && m.Kind == "expire" {
					m.At = m.At.Add(24 * time.Hour)
				}
			})
			return true
		}},
		"a line was given back later than the others": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			return announced(ofSeveral(e, "return", "cancel", "expire"), func(m *checkout.Movement) {
				m.At = m.At.Add(10 * time.Millisecond)
			})(e, n)
		}},
		"two sales have changed places":        {checkout.CheckLaw, swaps("sell")},
		"two reservations have changed places": {checkout.CheckLaw, swaps("reserve")},
		"two later steps have changed places":  {checkout.CheckLaw, swaps("confirm", "cancel", "return")},
		"an extension extends nothing": {
			checkout.CheckTold, extends(func(_, was time.Time) time.Time { return was }),
		},
		"an extension is an hour longer": {checkout.CheckTold, extends(func(expires, was time.Time) time.Time {
			if expires.After(was) {
				return expires.Add(time.Hour)
			}
			return expires
		})},
		"a reservation lasts longer than was asked for": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			id := record(e, n, doneBy(checkout.OpReserve)).Got.ReservationID
			things(e, func(t *checkout.Thing) {
				if t.ReservationID == id && !t.ExpiresAt.IsZero() {
					t.ExpiresAt = t.ExpiresAt.Add(time.Second)
				}
			})
			return true
		}},

		// It says, or shows, what is not so.
		"an order is said to be canceled": {
			checkout.CheckTold, lies(checkout.OpPlace, func(t *checkout.Thing) { t.State = "canceled" }),
		},
		"a cancellation names another order": {
			checkout.CheckTold, lies(checkout.OpCancel, func(t *checkout.Thing) { t.OrderID += "x" }),
		},
		"a confirmation names another reservation": {
			checkout.CheckTold, lies(checkout.OpConfirm, func(t *checkout.Thing) { t.ReservationID += "x" }),
		},
		"an order has other lines": {checkout.CheckTold, lies(checkout.OpPlace, other)},
		"an order is said to be another's": {
			checkout.CheckTold, lies(checkout.OpPlace, func(t *checkout.Thing) { t.Customer = "ann" }),
		},
		"a cancellation says late and was not": {
			checkout.CheckTold, lies(checkout.OpCancel, func(t *checkout.Thing) { t.Late = !t.Late }),
		},
		"a replay has other lines": {checkout.CheckTold, attempt(
			func(r *checkout.Record) bool { return r.Replayed && r.Got != nil },
			func(r *checkout.Record) { other(r.Got) })},
		"a reservation is not shown": {
			checkout.CheckTold, shows(true, func(t *checkout.Thing) { *t = checkout.Thing{} }),
		},
		"sold out before anything was sold": {checkout.CheckRefusals, tooEarly(
			func(_ *checkout.Evidence, r *checkout.Record) bool { return r.Problem == "sold_out" })},
		"the limit was reached before anything was sold": {checkout.CheckRefusals, tooEarly(
			func(e *checkout.Evidence, r *checkout.Record) bool {
				var most int64 // units of one SKU
				for _, units := range merge(r.Lines) {
					most = max(most, units)
				}
				return r.Problem == "limit_reached" && r.Lines != nil && most <= e.Limit
			})},
	}
}

// clone copies the evidence, so deep as doctors change it.
func clone(e *checkout.Evidence) *checkout.Evidence {
	c := *e
	c.Records, c.Orders = slices.Clone(e.Records), slices.Clone(e.Orders)
	c.Reservations, c.Books = slices.Clone(e.Reservations), slices.Clone(e.Books)
	for i := range c.Records {
		if got := c.Records[i].Got; got != nil {
			c.Records[i].Got = new(*got)
		}
	}
	things(&c, func(t *checkout.Thing) { t.Lines = slices.Clone(t.Lines) })
	for i := range c.Books {
		c.Books[i].Movements = slices.Clone(c.Books[i].Movements)
		c.Books[i].Events = slices.Clone(c.Books[i].Events)
	}
	return &c
}

// Whatever is changed in honest evidence, and wherever, is found.
func TestDoctoredEvidenceIsFound(t *testing.T) {
	t.Parallel()
	_, r := run(t, plan())
	base := &r.Evidence
	if v := checkout.Judge(base); v.Finding != loadtest.Holds {
		t.Fatalf("before: %v", failures(&v))
	}
	for name, row := range doctors() {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dice, tried := rand.New(rand.NewPCG(1, 2)), 0
			for range servertest.Rounds(12, 3) { // places
				e, n := clone(base), dice.IntN(1<<20)
				if !row.do(e, n) {
					continue
				}
				tried++
				v := checkout.Judge(e)
				want := loadtest.Broken
				if row.check == checkout.CheckSettled {
					want = loadtest.Undecided
				}
				if v.Finding != want || v.Check(row.check).Failed == 0 {
					t.Fatalf("at place %d: %s: %v", n, v.Sentence, failures(&v))
				}
			}
			if tried == 0 {
				t.Error("there was nothing to change")
			}
		})
	}
}

// What came after the books were read is held against nobody.
func TestHarmlessEvidenceHolds(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Visits = 100
	_, r := run(t, p)
	for name, do := range map[string]func(*checkout.Evidence, *checkout.Book){
		"nothing": func(*checkout.Evidence, *checkout.Book) {},
		"an event of a later movement": func(_ *checkout.Evidence, b *checkout.Book) {
			e := b.Events[len(b.Events)-1]
			e.ID += "-later"
			e.Data.Number = b.After.Number + 1
			b.Events = append(b.Events, e)
		},
		"a copy of the last movement's event under a later number": func(_ *checkout.Evidence, b *checkout.Book) {
			e := b.Events[len(b.Events)-1]
			e.Data.Number += 7
			b.Events = append(b.Events, e)
		},
		"nobody listened": func(e *checkout.Evidence, b *checkout.Book) {
			e.Unheard.EN, b.Events = "no relay", nil
		},
	} {
		e := clone(&r.Evidence)
		do(e, &e.Books[0])
		if v := checkout.Judge(e); v.Finding != loadtest.Holds {
			t.Errorf("%s: %s: %v", name, v.Sentence, failures(&v))
		}
	}
}

// Our clock may be ahead of the store's, or behind, and go faster or slower: nobody is accused for that, and the
// verdict stands. If it is set during the run, there is no verdict.
func TestClocksMayDiffer(t *testing.T) {
	t.Parallel()
	_, r := run(t, plan())
	base := &r.Evidence
	judged := func(date func(time.Time) time.Time) checkout.Verdict {
		e := clone(base)
		e.ReadAt = date(e.ReadAt)
		for i := range e.Records {
			e.Records[i].SentAt, e.Records[i].DoneAt = date(e.Records[i].SentAt), date(e.Records[i].DoneAt)
		}
		return checkout.Judge(e)
	}
	middle := base.Records[len(base.Records)/2].SentAt
	for _, ahead := range []time.Duration{
		-24 * time.Hour, -15 * time.Minute, -3 * time.Second, -time.Millisecond, 3 * time.Second, 15 * time.Minute,
		24 * time.Hour,
	} {
		for _, faster := range []float64{-0.05, 0, 0.05} {
			v := judged(func(at time.Time) time.Time {
				return at.Add(ahead + time.Duration(faster*float64(at.Sub(base.Records[0].SentAt))))
			})
			if v.Finding != loadtest.Holds {
				t.Errorf("ahead by %v, and by %v for each second: %v", ahead, faster, failures(&v))
			}
		}
		v := judged(func(at time.Time) time.Time {
			if at.Before(middle) && ahead < 0 || at.After(middle) && ahead > 0 {
				return at.Add(ahead)
			}
			return at
		})
		want := loadtest.Undecided
		if ahead.Abs() < time.Second {
			want = loadtest.Holds
		}
		if v.Finding != want {
			t.Errorf("set by %v: %s: %v", ahead, v.Sentence, failures(&v))
		}
	}
}
