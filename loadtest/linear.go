package loadtest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"example.com/stock/internal/words"
)

// The results of looking for a linear order. Only InOrder is a pass.
const (
	InOrder  = "ok"      // there is an order
	Illegal  = "illegal" // there is none
	NotAsked = "skipped" // none was looked for; Why has the reason
)

// Linear tells whether the run is linearizable: whether each request can be placed at one instant between its sending
// and its reply, so that one counter would have given these replies (Herlihy and Wing, "Linearizability", 1990). Only
// this check considers time, and finds a request that did not see a sale made before it was sent. Times are the load
// generator's, so the clocks of instances do not matter.
type Linear struct {
	Result string     `json:"result"`
	Why    words.Text `json:"why,omitzero"` // unless it is ok
}

// Sentence describes l in words.
func (l Linear) Sentence() words.Text {
	switch l.Result {
	case InOrder:
		return say("linear.in-order")
	case Illegal:
		return say("linear.not", "why", l.Why)
	default:
		return say("linear.not-asked", "why", l.Why)
	}
}

// linear looks for a linear order of a run. A counter that only goes down needs no search: see [ledger.order].
func linear(v *Verdict, ledgers []*ledger) Linear {
	switch why := notAsked(ledgers); {
	case why != words.Text{}:
		return Linear{NotAsked, why}
	case v.OversoldUnits > 0:
		return Linear{Illegal, say("linear.oversold")}
	case v.Collisions > 0:
		return Linear{Illegal, say("linear.collision")}
	case v.StaleReads > 0:
		return Linear{Illegal, say("linear.stale")}
	}
	var why words.Text
	for _, l := range ledgers {
		if wrong := l.order(); why == (words.Text{}) {
			why = wrong
		}
	}
	if why != (words.Text{}) {
		return Linear{Illegal, why}
	}
	return Linear{Result: InOrder}
}

// notAsked returns why no order is looked for, or nothing.
func notAsked(ledgers []*ledger) (why words.Text) {
	told := false
	for _, l := range ledgers {
		switch {
		case l.Before.SKU == "":
			return say("linear.no-stock")
		case l.otherEpoch > 0 || l.After != nil && l.After.Epoch != l.Before.Epoch:
			return say("linear.set-again")
		}
		told = told || len(l.sales) > 0 || slices.ContainsFunc(l.records, func(r *Record) bool {
			// A refusal in a purchase by steps may be due to what carts hold: see falseSoldOut.
			return r.Outcome == SoldOut && r.Purchase == nil || r.Outcome == Unknown && !l.Complete
		})
	}
	if !told {
		return say("linear.nothing")
	}
	return why
}

// order puts the sales and refusals of one SKU in order, each at an instant between its sending and its reply, or
// returns why that is impossible.
//
// Stock only goes down during a run. So a refusal is best explained by the lowest possible stock before its reply. The
// stock is lowest if every sale happens as early as possible: when it was sent or, because versions give the order of
// the sales, when the last of the earlier sales was sent. If in this placement a sale was answered before its instant,
// or a refusal while there was enough, no order exists. Otherwise the placement is an order.
//
// The stock at an instant is the final stock plus all units sold after the instant. Counting from the end means that
// unknown sales can only add to the true stock, so that a missing order never makes a refusal look false.
func (l *ledger) order() (why words.Text) {
	sales := make([]*sale, len(l.sales))
	for i := range l.sales {
		sales[i] = &l.sales[i]
	}
	slices.SortStableFunc(sales, func(a, b *sale) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.version, b.version))
	})
	var last *sale // the previous sale of the segment
	for _, s := range sales {
		s.earliest = s.sent()
		if s.blind || l.held > 0 { // what a cart holds a sale has not read
			continue
		}
		if last != nil && last.segment != s.segment {
			last = nil
		}
		if last != nil && last.earliest.After(s.earliest) {
			s.earliest = last.earliest
		}
		if s.of != nil && s.of.Outcome == Accepted && s.of.decided().Before(s.earliest) && why == (words.Text{}) {
			why = say("linear.before", "later", last.first.request, "earlier", s.request, "order", last.first.order,
				"version", last.first.version, "other", s.version)
		}
		if last == nil || s.earliest.After(last.earliest) {
			s.first = s
		} else {
			s.first = last.first
		}
		last = s
	}
	if why == (words.Text{}) && l.unexplained(sales) {
		why = say("linear.no-order")
	}
	if wrong := l.falseSoldOut(sales); why == (words.Text{}) {
		why = wrong
	}
	return why
}

// unexplained reports whether the sales, in the order of their versions, are not all that happened to the stock: one
// wrote another number than it should, something else wrote between two of them, or they do not lead to the final
// stock.
func (l *ledger) unexplained(sales []*sale) bool {
	if l.held > 0 {
		return false
	}
	left := l.Before.Quantity
	for i, s := range sales {
		left -= s.quantity
		ofAll := s.segment == 0 && !s.blind // what it tells is about the whole stock
		if ofAll && s.read-s.quantity != s.remaining ||
			ofAll && i > 0 && l.Complete && !l.Before.Mapped && s.version != sales[i-1].version+1 {
			return true
		}
	}
	return l.Complete && l.After != nil && left != l.After.Quantity
}

// sent returns the time at which the request of the sale was sent, or zero if the request is not known.
func (s *sale) sent() time.Time {
	if s.of == nil {
		return time.Time{}
	}
	return s.of.began()
}

// falseSoldOut finds "sold out" replies while there was enough. The sales must have been placed. A cart may hold units
// from the step that refused others on. So a refusal before the step that sells is compared with when the sales took
// that same step, and is not judged if a purchase got further, or got there without a refusal, and ended unsold.
func (l *ledger) falseSoldOut(sales []*sale) (why words.Text) {
	if l.After == nil {
		return why
	}
	further, open := l.unsold()
	refused := make(map[int][]*Record) // by step; 0: that sells, or a later one
	for _, r := range l.records {
		switch p := r.Purchase; {
		case r.Outcome != SoldOut:
		case p == nil:
			refused[0] = append(refused[0], r)
		case further > p.Decided || open >= p.Decided && p.Decided != p.Sells:
		case r.early():
			refused[p.Decided] = append(refused[p.Decided], r)
		default:
			refused[0] = append(refused[0], r)
		}
	}
	count := 0
	var first *Record
	var left int64
	for _, step := range slices.Sorted(maps.Keys(refused)) {
		gone := func(s *sale) time.Time {
			if step > 0 && s.of != nil {
				return s.of.reached(step)
			}
			return s.earliest
		}
		if n, r, least := l.refusedWrongly(refused[step], sales, gone); n > 0 {
			count, first, left = count+n, r, least
		}
	}
	if count == 0 {
		return why
	}
	l.verdict.FalseSoldOut += count
	l.verdict.late = true // the final stock may have been reported late
	why = say("linear.false-sold-out", "n", count, "request", first.RequestID, "asked", first.Quantity, "left", left)
	l.reason(AboutStock, why)
	return why
}

// refusedWrongly counts the refusals while there was enough, if the units of a sale are gone from the given time on at
// the latest. It returns the first of them, and the units that were left then.
func (l *ledger) refusedWrongly(refused []*Record, sales []*sale, gone func(*sale) time.Time) (
	count int, first *Record, left int64,
) {
	slices.SortFunc(sales, func(a, b *sale) int { return gone(b).Compare(gone(a)) })
	slices.SortFunc(refused, func(a, b *Record) int { return b.decided().Compare(a.decided()) })
	least, next := l.After.Quantity, 0
	for _, r := range refused { // the last one first
		for next < len(sales) && gone(sales[next]).After(r.decided()) {
			least += sales[next].quantity
			next++
		}
		if r.Quantity <= least {
			count++
			first, left = r, least
		}
	}
	return count, first, left
}

// unsold returns the number of the last step that a purchase decided which sold nothing, and of the last that one did
// without being refused there.
func (l *ledger) unsold() (further, open int) {
	sold := make(map[*Record]bool)
	for i := range l.sales {
		sold[l.sales[i].of] = true
	}
	for _, r := range l.records {
		if r.Purchase == nil || sold[r] {
			continue
		}
		further = max(further, r.Purchase.Decided)
		if r.Outcome != SoldOut {
			open = max(open, r.Purchase.Decided)
		}
	}
	return further, open
}
