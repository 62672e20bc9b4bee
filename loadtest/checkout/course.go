package checkout

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// sweepTime is how long a reservation may be held after its expiry. The service promises a second; the rest allows for
// the inexact store's clock.
const sweepTime = loadtest.LateLimit

// A fact is an order or a reservation in a reply.
type fact struct {
	id, customer string
	lines        map[string]int64 // units by SKU
	reservation  bool
	of           *fact      // of an order: its confirmed reservation; nil: none
	became       *fact      // of a reservation: the order
	late         bool       // of an order: its reservation had expired
	created      time.Time  // in the first reply
	expires      time.Time  // of a reservation: its expiry in the last reply
	made         []*request // the requests that made it
	asked        []*request // the requests about it
	moves        map[string][]*Movement
}

// name returns the id of f, or "" if there is none.
func (f *fact) name() string {
	if f == nil {
		return ""
	}
	return f.id
}

// cart returns the lines of f.
func (f *fact) cart() (list []Line) {
	for sku, n := range f.lines {
		list = append(list, Line{sku, n})
	}
	return list
}

// about returns the requests for op with f.
func (f *fact) about(op Op) (list []*request) {
	for _, q := range f.asked {
		if q.ask.Op == op {
			list = append(list, q)
		}
	}
	return list
}

// done reports whether a reply confirmed op on f.
func (f *fact) done(op Op) bool {
	return slices.ContainsFunc(f.about(op), func(r *request) bool { return r.done != nil })
}

// mayHave reports whether op may have been done on f, by the replies to its customer.
func (f *fact) mayHave(op Op) bool {
	return slices.ContainsFunc(f.about(op), func(r *request) bool { return !r.refused() })
}

// open reports whether the outcome of op is unknown.
func (f *fact) open(op Op) bool {
	return slices.ContainsFunc(f.about(op), func(r *request) bool { return !r.settled() })
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

// learnAll collects the orders and reservations in replies, and the requests about each.
func (j *judge) learnAll() {
	for _, q := range j.requests {
		if q.cart() && !q.ask.Misuse && q.done != nil {
			j.learn(q, q.ask.Op == OpReserve, merged(q.ask.Lines))
		}
	}
	for _, q := range j.requests { // what became of reservations, after all are known
		f := j.facts[q.ask.Ref]
		if f == nil || q.done == nil {
			continue
		}
		switch got := q.done.Got; q.ask.Op {
		case OpConfirm:
			o := j.learn(q, false, f.lines)
			o.of, o.late, f.became = f, got.Late, o
		case OpExtend:
			if got.ExpiresAt.After(f.expires) {
				f.expires = got.ExpiresAt
			}
		}
	}
	for _, q := range j.requests { // the requests about each, after the orders from reservations are known
		if f := j.facts[q.ask.Ref]; f != nil {
			f.asked = append(f.asked, q)
		}
	}
}

// learn adds the order or the reservation that q made.
func (j *judge) learn(q *request, reservation bool, lines map[string]int64) *fact {
	got := q.done.Got
	id := got.OrderID
	if reservation {
		id = got.ReservationID
	}
	f := j.facts[id]
	if f == nil {
		f = &fact{
			id: id, customer: q.ask.Customer, lines: lines, reservation: reservation, created: got.CreatedAt,
			expires: got.ExpiresAt, moves: make(map[string][]*Movement),
		}
		j.facts[id] = f
	}
	f.made = append(f.made, q)
	return f
}

// orphaned checks the orders and reservations in the books that no reply named.
func (j *judge) orphaned() {
	for _, ref := range slices.Sorted(maps.Keys(j.orphans)) {
		customer := j.orphans[ref]
		if j.openPerhaps[customer] || j.confirmOpen(customer) {
			continue // perhaps from a request with an unknown outcome, which settled reports
		}
		j.fail(CheckKeys, "orphan", "order", ref, "customer", customer)
	}
}

// confirmOpen reports whether a customer has a confirmation, which makes an order, with an unknown outcome.
func (j *judge) confirmOpen(customer string) bool {
	return slices.ContainsFunc(j.requests, func(q *request) bool {
		return q.ask.Op == OpConfirm && q.ask.Customer == customer && !q.settled()
	})
}

// course returns the kinds of the movements of f, after those of its reservation if it had one.
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

// courses returns all valid sequences of movements of a line.
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
	at := make(map[string]time.Time) // by kind, of the first line
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
			if first, known := at[m.Kind]; !known {
				at[m.Kind] = m.At
			} else if !near(first, m.At) {
				j.fail(CheckCarts, "apart", "order", f.id, "sku", sku, "kind", m.Kind, "at", clock(m.At),
					"other", clock(first))
			}
			j.dated(f, m)
		}
	}
	if f.reservation {
		j.reservation(f)
	} else {
		j.order(f)
	}
}

// dated fails if the movement that made f and the reply differ in their times, which are both the store's.
func (j *judge) dated(f *fact, m *Movement) {
	told := f
	switch m.Kind {
	case "sell", "reserve":
	case "confirm":
		told = f.became
	default:
		return // no reply has the time
	}
	if told != nil && !near(told.created, m.At) {
		j.fail(CheckTold, "dated", "order", told.id, "told", clock(told.created), "kind", m.Kind, "at", clock(m.At))
	}
}

// must fails if the ledger contradicts the replies: if done, the ledger must have the movement; only if may, it can
// have it.
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
	// An order made after the expiry has a separate sale.
	confirmed := f.has("confirm") || f.became != nil && f.became.has("sell")
	j.must(f, "confirm", confirmed, f.done(OpConfirm), f.mayHave(OpConfirm))
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
	switch late := j.now.Sub(f.expires); {
	case late > sweepTime:
		j.soon(CheckExpiry, "not-swept", "order", f.id, "expires", clock(f.expires), "now", clock(j.now))
	case late > 0:
		j.v.early = true // only a later look shows whether it is swept
	}
}
