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

func says(state string) func(*checkout.Thing) {
	return func(t *checkout.Thing) { t.State = state }
}

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
		"a kind is unknown": {checkout.CheckLaw, movement(anything, func(m *checkout.Movement) { m.Kind = "gift" })},
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
			one, other := record(e, n, doneBy(checkout.OpPlace)), record(e, n+1, doneBy(checkout.OpPlace))
			other.Got = one.Got
			return one != other
		}},
		"one key got two orders": {checkout.CheckKeys, attempt(
			func(r *checkout.Record) bool { return r.Replayed && r.Again && r.Got != nil },
			func(r *checkout.Record) { r.Got.OrderID += "x" })},
		"a key that was used for another cart sold": {checkout.CheckKeys, attempt(
			func(r *checkout.Record) bool { return r.Misuse }, func(r *checkout.Record) {
				r.Outcome, r.Got = checkout.Done, &checkout.Thing{OrderID: "new", Customer: r.Customer, Lines: r.Lines}
			})},
		"a canceled order was not given back": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return"))
			ref := b.Movements[i].Ref
			for k := range e.Books {
				e.Books[k].Movements = slices.DeleteFunc(e.Books[k].Movements, func(m checkout.Movement) bool {
					return m.Ref == ref && m.Kind == "return"
				})
			}
			return true
		}},
		"an order is listed as another": {checkout.CheckTold, shows(false, func(t *checkout.Thing) {
			t.State = map[string]string{"placed": "canceled", "canceled": "placed"}[t.State]
		})},
		"a reservation is shown as another": {checkout.CheckTold, shows(true, func(t *checkout.Thing) {
			t.State = map[string]string{"confirmed": "held"}[t.State]
		})},
		"a delivery is not in the ledger": {checkout.CheckTold, movement(
			func(m *checkout.Movement) bool { return m.Kind == "adjust" && m.Reason != "" },
			func(m *checkout.Movement) { m.Reason = "another" })},
		"a reply said late and was not": {
			checkout.CheckTold, lies(checkout.OpConfirm, func(t *checkout.Thing) { t.Late = !t.Late }),
		},
		"a reservation was confirmed after its end": {checkout.CheckExpiry, movement(
			kind("confirm"), func(m *checkout.Movement) { m.At = m.At.Add(time.Hour) })},
		"the last event is missing": {checkout.CheckEvents, inBook(anything, func(b *checkout.Book, _ int) {
			b.Events = b.Events[:len(b.Events)-1]
		})},
		"an event came twice": {checkout.CheckEvents, inBook(anything, func(b *checkout.Book, i int) {
			b.Events = slices.Insert(b.Events, i, b.Events[i])
		})},
		"a request was never answered": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			request := record(e, n, doneBy(checkout.OpPlace)).Request
			for i := range e.Records {
				if e.Records[i].Request == request {
					e.Records[i].Outcome, e.Records[i].Got = checkout.Unknown, nil
				}
			}
			return true
		}},
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
		"a stranger buys": {checkout.CheckSettled, writes(checkout.Movement{
			Kind: "sell", Available: -1, Sold: 1, Ref: "another's", Customer: "ann",
		})},
		"a stranger gets units of an order back": {checkout.CheckTold, announced(
			kind("return"), func(m *checkout.Movement) { m.Customer = "ann" })},
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
		"an order is shown dated a day later":           {checkout.CheckTold, shows(false, aDayLater)},
		"a reply dates an order a day later":            {checkout.CheckTold, lies(checkout.OpPlace, aDayLater)},
		"a line was given back later than the others": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			lines := make(map[string]int)
			moved(e, func(m *checkout.Movement) { lines[m.Ref+m.Kind]++ })
			return announced(func(m *checkout.Movement) bool {
				return slices.Contains([]string{"return", "cancel", "expire"}, m.Kind) && lines[m.Ref+m.Kind] > 2
			}, func(m *checkout.Movement) { m.At = m.At.Add(10 * time.Millisecond) })(e, n)
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
		"an order is said to be canceled":       {checkout.CheckTold, lies(checkout.OpPlace, says("canceled"))},
		"a cancellation says placed":            {checkout.CheckTold, lies(checkout.OpCancel, says("placed"))},
		"a reservation is said to be confirmed": {checkout.CheckTold, lies(checkout.OpReserve, says("confirmed"))},
		"a cancellation names another order": {
			checkout.CheckTold, lies(checkout.OpCancel, func(t *checkout.Thing) { t.OrderID += "x" }),
		},
		"a confirmation names another reservation": {
			checkout.CheckTold, lies(checkout.OpConfirm, func(t *checkout.Thing) { t.ReservationID += "x" }),
		},
		"an order has other lines":       {checkout.CheckTold, lies(checkout.OpPlace, other)},
		"a confirmation has other lines": {checkout.CheckTold, lies(checkout.OpConfirm, other)},
		"a replay has other lines": {checkout.CheckTold, attempt(
			func(r *checkout.Record) bool { return r.Replayed && r.Got != nil },
			func(r *checkout.Record) { other(r.Got) })},
		"an order is shown with other lines":      {checkout.CheckTold, shows(false, other)},
		"a reservation is shown with other lines": {checkout.CheckTold, shows(true, other)},
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
				if v.Finding == loadtest.Holds || v.Check(row.check).Failed == 0 {
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
