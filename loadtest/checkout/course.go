package checkout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// sweepTime is how long after its time a reservation may still be held: a second is promised, and the clocks of the
// computers may differ.
const sweepTime = loadtest.LateLimit

// A fact is an order or a reservation that a reply told of.
type fact struct {
	id, customer string
	lines        map[string]int64 // units by SKU
	reservation  bool
	of           *fact      // of an order: the reservation that was confirmed; nil: none
	became       *fact      // of a reservation: the order
	late         bool       // of an order
	expires      time.Time  // of a reservation, as told last
	asked        []*request // what was asked about it
	moves        map[string][]*Movement
}

// done reports whether a reply said that op was done with f.
func (f *fact) done(op Op) bool {
	return slices.ContainsFunc(f.asked, func(r *request) bool { return r.ask.Op == op && r.done != nil })
}

// mayHave reports whether op may have been done with f, as far as its customer knows.
func (f *fact) mayHave(op Op) bool {
	return slices.ContainsFunc(f.asked, func(r *request) bool { return r.ask.Op == op && !r.refused() })
}

// has reports whether the ledger has a movement of that kind for f, of any SKU.
func (f *fact) has(kind string) bool {
	for _, moves := range f.moves {
		for _, m := range moves {
			if m.Kind == kind {
				return true
			}
		}
	}
	return false
}

// orphaned looks at what is in the books and no reply named.
func (j *judge) orphaned() {
	for _, ref := range slices.Sorted(maps.Keys(j.orphans)) {
		customer := j.orphans[ref]
		if j.openPerhaps[customer] || j.confirmOpen(customer) {
			continue // perhaps the one of which the customer does not know; settled says so
		}
		j.fail(CheckKeys, "orphan", "order", ref, "customer", customer)
	}
}

// confirmOpen reports whether a customer does not know what became of a confirmation, which makes an order.
func (j *judge) confirmOpen(customer string) bool {
	return slices.ContainsFunc(j.requests, func(q *request) bool {
		return q.ask.Op == OpConfirm && q.ask.Customer == customer && !q.settled()
	})
}

// course returns the kinds of the movements of f, with those of the reservation that it was first.
func (f *fact) course(sku string) []string {
	var list []string
	if f.of != nil {
		list = f.of.course(sku)
	}
	for _, m := range f.moves[sku] {
		list = append(list, m.Kind)
	}
	return list
}

// courses are all that may happen to the units of a line, whichever way.
func courses() []string {
	return []string{
		"sell", "sell-return", // an order
		"reserve", "reserve-confirm", "reserve-cancel", "reserve-expire", // a reservation
		"reserve-confirm-return", "reserve-expire-sell", "reserve-expire-sell-return", // the order that it became
	}
}

// fact checks one order or reservation.
func (j *judge) fact(f *fact) {
	j.looked(CheckOnce, 1)
	j.looked(CheckCarts, 1)
	j.looked(CheckTold, 1)
	skus := make(map[string]bool)
	for sku := range f.lines {
		skus[sku] = true
	}
	for sku := range f.moves {
		skus[sku] = true
	}
	var courseOf string
	for i, sku := range slices.Sorted(maps.Keys(skus)) {
		course := strings.Join(f.course(sku), "-")
		if course != "" && !slices.Contains(courses(), course) {
			j.fail(CheckOnce, "course", "order", f.id, "sku", sku, "course", course)
		}
		if i == 0 {
			courseOf = course
		} else if course != courseOf {
			j.fail(CheckCarts, "half", "order", f.id, "sku", sku, "course", cmp.Or(course, "-"), "other", courseOf)
		}
		for _, m := range f.moves[sku] {
			if m.units() != f.lines[sku] {
				j.fail(CheckCarts, "units", "order", f.id, "sku", sku, "kind", m.Kind, "units", m.units(),
					"asked", f.lines[sku])
			}
		}
	}
	if f.reservation {
		j.reservation(f)
	} else {
		j.order(f)
	}
}

// must fails if what the ledger has is not what the customer was told: done: it must have it; may: it can.
func (j *judge) must(f *fact, kind string, has, done, may bool) {
	switch {
	case done && !has:
		j.fail(CheckTold, "told-done", "order", f.id, "kind", kind)
	case has && !may:
		j.fail(CheckTold, "not-asked", "order", f.id, "kind", kind)
	}
}

func (j *judge) order(f *fact) {
	sold := f.has("sell")
	if f.of != nil {
		if f.late != sold || f.late == f.of.has("confirm") {
			j.fail(CheckTold, "late", "order", f.id, "late", f.late)
		}
		sold = sold || f.of.has("confirm")
	}
	j.must(f, "sell", sold, true, true)
	j.must(f, "return", f.has("return"), f.done(OpCancel), f.mayHave(OpCancel))
}

func (j *judge) reservation(f *fact) {
	j.must(f, "reserve", f.has("reserve"), true, true)
	j.must(f, "cancel", f.has("cancel"), f.done(OpRelease), f.mayHave(OpRelease))
	// An order that was made late has a sale of its own.
	confirmed := f.has("confirm") || f.became != nil && f.became.has("sell")
	j.must(f, "confirm", confirmed, f.done(OpConfirm), f.mayHave(OpConfirm))
	if f.done(OpRelease) && f.done(OpConfirm) {
		j.fail(CheckTold, "both", "order", f.id)
	}
	if f.expires.IsZero() || f.open(OpExtend) {
		return
	}
	j.looked(CheckExpiry, 1)
	open := true
	for _, moves := range f.moves {
		for _, m := range moves {
			switch {
			case m.Kind == "expire" && m.At.Before(f.expires):
				j.fail(CheckExpiry, "too-early", "order", f.id, "at", clock(m.At), "expires", clock(f.expires))
			case m.Kind == "confirm" && !m.At.Before(f.expires):
				j.fail(CheckExpiry, "confirmed-after", "order", f.id, "at", clock(m.At), "expires", clock(f.expires))
			}
			open = open && m.Kind == "reserve"
		}
	}
	if !open || len(f.moves) == 0 {
		return
	}
	switch late := j.latest.Sub(f.expires); {
	case late > sweepTime:
		j.soon(CheckExpiry, "not-swept", "order", f.id, "expires", clock(f.expires), "now", clock(j.latest))
	case late > 0:
		j.v.early = true // only a later look tells whether it is swept
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

// deliveries checks that each delivery is in the ledger once.
func (j *judge) deliveries() {
	for _, q := range j.requests {
		if q.ask.Op != OpDeliver {
			continue
		}
		j.looked(CheckTold, 1)
		switch n := j.adjusts[q.ask.Key]; {
		case n > 1:
			j.fail(CheckKeys, "delivered-twice", "key", q.ask.Key, "n", n)
		case n == 0 && q.done != nil:
			j.fail(CheckTold, "not-delivered", "key", q.ask.Key)
		case n == 1 && q.refused():
			j.fail(CheckTold, "delivered-refused", "key", q.ask.Key)
		}
	}
}

// shown compares the orders and reservations that the service shows with the ledger.
func (j *judge) shown() {
	seen := make(map[string]bool)
	for i := range j.e.Orders {
		o := &j.e.Orders[i]
		j.looked(CheckTold, 1)
		f := j.facts[o.OrderID]
		switch {
		case seen[o.OrderID]:
			j.fail(CheckTold, "listed-twice", "order", o.OrderID)
		case f == nil && j.orphans[o.OrderID] == "" && !j.openPerhaps[o.Customer] && !j.confirmOpen(o.Customer):
			j.fail(CheckKeys, "orphan", "order", o.OrderID, "customer", o.Customer)
		case f != nil && (f.reservation || !maps.Equal(merged(o.Lines), f.lines) ||
			(o.State == "canceled") != f.has("return") || o.Late != f.late):
			j.soon(CheckTold, "shown", "order", o.OrderID, "state", o.State)
		}
		seen[o.OrderID] = true
	}
	for id, f := range j.facts {
		if !f.reservation && !seen[id] {
			j.fail(CheckTold, "not-listed", "order", id)
		}
	}
	for i := range j.e.Reservations {
		r := &j.e.Reservations[i]
		f := j.facts[r.ReservationID]
		if f == nil {
			j.fail(CheckTold, "gone", "n", 1)
			continue
		}
		if f.open(OpConfirm) {
			continue // what is not known may have made a sale under an id that no reply named
		}
		state := "held"
		switch {
		case f.has("confirm"), f.became != nil && f.became.has("sell"):
			state = "confirmed"
		case f.has("cancel"):
			state = "canceled"
		case f.has("expire"):
			state = "expired"
		}
		if r.State != state {
			j.soon(CheckTold, "shown", "order", r.ReservationID, "state", r.State)
		}
	}
}

// open reports whether it is not known what became of op.
func (f *fact) open(op Op) bool {
	return slices.ContainsFunc(f.asked, func(r *request) bool { return r.ask.Op == op && !r.settled() })
}
