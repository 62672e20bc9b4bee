package checkout_test

import (
	"maps"
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

// pick returns the n-th movement that ok accepts.
func pick(e *checkout.Evidence, n int, ok func(*checkout.Movement) bool) (*checkout.Book, int) {
	type place struct {
		b *checkout.Book
		i int
	}
	var places []place
	for k := range e.Books {
		b := &e.Books[k]
		for i := range b.Movements {
			if ok(&b.Movements[i]) {
				places = append(places, place{b, i})
			}
		}
	}
	if len(places) == 0 {
		return nil, 0
	}
	p := places[n%len(places)]
	return p.b, p.i
}

func kind(kinds ...string) func(*checkout.Movement) bool {
	return func(m *checkout.Movement) bool { return slices.Contains(kinds, m.Kind) && m.Ref != "" }
}

// record returns the n-th record that ok accepts.
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

// A row is what may be wrong in evidence, with the check that finds it.
type row struct {
	check string
	do    doctor
}

// doctors lists evidence that lacks something, or has something that cannot be.
func doctors() map[string]row {
	any := func(*checkout.Movement) bool { return true }
	gone := func(list []checkout.Movement, i int) []checkout.Movement { return slices.Delete(list, i, i+1) }
	return map[string]row{
		"a movement is missing": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Movements = gone(b.Movements, i)
			return true
		}},
		"a movement is there twice": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Movements = slices.Insert(b.Movements, i, b.Movements[i])
			return true
		}},
		"a unit too many is given back": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return", "expire", "cancel"))
			b.Movements[i].Available++
			return true
		}},
		"the counters are off": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, _ := pick(e, n, any)
			b.After.Available++
			b.After.Received++
			return true
		}},
		"a kind is unknown": {checkout.CheckLaw, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Movements[i].Kind = "gift"
			return true
		}},
		"units were given back for another order": {checkout.CheckOnce, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("return"))
			o, k := pick(e, n, func(m *checkout.Movement) bool {
				return m.Kind == "return" && m.Ref != b.Movements[i].Ref && m.SKU == b.Movements[i].SKU
			})
			if o == nil {
				return false
			}
			b.Movements[i].Ref = o.Movements[k].Ref
			return true
		}},
		"an order sold more than was asked for": {checkout.CheckCarts, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("sell", "reserve"))
			m := &b.Movements[i]
			m.Available--
			if m.Kind == "sell" {
				m.Sold++
			} else {
				m.Reserved++
			}
			return true
		}},
		"an order is of nobody": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("sell"))
			b.Movements[i].Ref = "nobody's"
			return true
		}},
		"two keys got one order": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			one, other := record(e, n, doneBy(checkout.OpPlace)), record(e, n+1, doneBy(checkout.OpPlace))
			other.Got = one.Got
			return one != other
		}},
		"one key got two orders": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, func(r *checkout.Record) bool { return r.Replayed && r.Again && r.Got != nil })
			got := *r.Got
			got.OrderID += "x"
			r.Got = &got
			return true
		}},
		"a key that was used for another cart sold": {checkout.CheckKeys, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, func(r *checkout.Record) bool { return r.Misuse })
			r.Outcome, r.Got = checkout.Done, &checkout.Thing{OrderID: "new", Customer: r.Customer, Lines: r.Lines}
			return true
		}},
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
		"an order is listed as another": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			o := &e.Orders[n%len(e.Orders)]
			o.State = map[string]string{"placed": "canceled", "canceled": "placed"}[o.State]
			return true
		}},
		"an order is not listed": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			i := n % len(e.Orders)
			e.Orders = slices.Delete(e.Orders, i, i+1)
			return true
		}},
		"a reservation is shown as another": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			r := &e.Reservations[n%len(e.Reservations)]
			r.State = map[string]string{"confirmed": "held"}[r.State]
			return true
		}},
		"a delivery is not in the ledger": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, func(m *checkout.Movement) bool { return m.Kind == "adjust" && m.Reason != "" })
			b.Movements[i].Reason = "another"
			return true
		}},
		"a reply said late and was not": {checkout.CheckTold, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, doneBy(checkout.OpConfirm))
			got := *r.Got
			got.Late = !got.Late
			r.Got = &got
			return true
		}},
		"somebody was refused although there was enough": {
			checkout.CheckRefusals,
			func(e *checkout.Evidence, n int) bool {
				r := record(e, n, func(r *checkout.Record) bool { return r.Outcome == checkout.Refused })
				r.Problem = "unknown_sku"
				return true
			},
		},
		"a reservation expired too early": {checkout.CheckExpiry, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("expire"))
			b.Movements[i].At = b.Movements[i].At.Add(-5 * time.Second)
			return true
		}},
		"a reservation was confirmed after its end": {checkout.CheckExpiry, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, kind("confirm"))
			b.Movements[i].At = b.Movements[i].At.Add(time.Hour)
			return true
		}},
		"a customer has more than the limit": {checkout.CheckLimits, func(e *checkout.Evidence, _ int) bool {
			e.Limit = 1
			return true
		}},
		"an event is missing": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Events = slices.Delete(b.Events, i, i+1)
			return true
		}},
		"the last event is missing": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b := &e.Books[n%len(e.Books)]
			b.Events = b.Events[:len(b.Events)-1]
			return true
		}},
		"an event came twice": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Events = slices.Insert(b.Events, i, b.Events[i])
			return true
		}},
		"two events are in the wrong order": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			k := (i + 1) % len(b.Events)
			b.Events[i], b.Events[k] = b.Events[k], b.Events[i]
			return k != i
		}},
		"an event tells of other units": {checkout.CheckEvents, func(e *checkout.Evidence, n int) bool {
			b, i := pick(e, n, any)
			b.Events[i].Data.Available++
			return true
		}},
		"a request was never answered": {checkout.CheckSettled, func(e *checkout.Evidence, n int) bool {
			r := record(e, n, doneBy(checkout.OpPlace))
			for i := range e.Records {
				if e.Records[i].Request == r.Request {
					e.Records[i].Outcome, e.Records[i].Got = checkout.Unknown, nil
				}
			}
			return true
		}},
		"the books were not read": {checkout.CheckSettled, func(e *checkout.Evidence, _ int) bool {
			e.Unread.EN = "no"
			return true
		}},
	}
}

// clone copies the evidence, so deep as doctors change it.
func clone(e *checkout.Evidence) *checkout.Evidence {
	c := *e
	c.Records, c.Orders = slices.Clone(e.Records), slices.Clone(e.Orders)
	c.Reservations, c.Books = slices.Clone(e.Reservations), slices.Clone(e.Books)
	for i := range c.Records {
		r := &c.Records[i]
		r.Lines = slices.Clone(r.Lines)
		if r.Got != nil {
			got := *r.Got
			got.Lines = slices.Clone(got.Lines)
			r.Got = &got
		}
	}
	for _, list := range [][]checkout.Thing{c.Orders, c.Reservations} {
		for i := range list {
			list[i].Lines = slices.Clone(list[i].Lines)
		}
	}
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
	rows := doctors()
	maps.Copy(rows, liars())
	for name, row := range rows {
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
