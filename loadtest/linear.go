package loadtest

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"example.com/stock/internal/words"
)

// MaxLinear is the number of records up to which porcupine checks a run: its search is exponential at worst, and its
// picture takes some hundred bytes for each record.
const MaxLinear = 10_000

// linearLimit is the limit of the search. A correct run of MaxLinear records takes some hundredths of a second.
const linearLimit = 2 * time.Second

// The results of the search for a linear order. Only InOrder is a pass.
const (
	InOrder  = "ok"      // there is an order
	Illegal  = "illegal" // there is none
	NotAsked = "skipped" // no search; Why has the reason
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

// linear looks for a linear order of a run of n records. A counter that only goes down needs no search: see
// [ledger.order]. Up to MaxLinear records, porcupine also searches, without relying on that argument. If porcupine
// gives up, the order that it found counts. If porcupine finds that there is no order, that counts.
func linear(v *Verdict, ledgers []*ledger, n int) Linear {
	ops, why := operations(ledgers)
	switch {
	case why != words.Text{}:
		return Linear{NotAsked, why}
	case v.OversoldUnits > 0:
		return Linear{Illegal, say("linear.oversold")}
	case v.Collisions > 0:
		return Linear{Illegal, say("linear.collision")}
	case v.StaleReads > 0:
		return Linear{Illegal, say("linear.stale")}
	}
	why = words.Text{}
	for _, l := range ledgers {
		if wrong := l.order(); why == (words.Text{}) {
			why = wrong
		}
	}
	if why != (words.Text{}) {
		return Linear{Illegal, why}
	}
	if n <= MaxLinear && porcupine.CheckOperationsTimeout(counterModel(), ops, linearLimit) == porcupine.Illegal {
		return Linear{Illegal, say("linear.no-order")}
	}
	return Linear{Result: InOrder}
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
	if wrong := l.falseSoldOut(sales); why == (words.Text{}) {
		why = wrong
	}
	return why
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

// operations returns the requests as input for porcupine, or why there are none. Times are the load generator's. A sale
// of unknown time may have happened at any time before the orders were last read.
func operations(ledgers []*ledger) (ops []porcupine.Operation, why words.Text) {
	for number, l := range ledgers {
		switch {
		case l.Before.SKU == "":
			return nil, say("linear.no-stock")
		case l.otherEpoch > 0 || l.After != nil && l.After.Epoch != l.Before.Epoch:
			return nil, say("linear.set-again")
		}
		ops = append(ops, l.operations(number)...)
	}
	if len(ops) == 0 {
		return nil, say("linear.nothing")
	}
	// Sort by time, because porcupine keeps equal times in the order of the list.
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops, why
}

func (l *ledger) operations(number int) []porcupine.Operation {
	var ops []porcupine.Operation
	end := int64(0)
	for _, r := range l.records {
		end = max(end, r.DoneAt.UnixNano()+1)
	}
	add := func(in call, out seen, from, to int64) {
		in.sku, in.initial = number, l.Before.Quantity
		ops = append(ops, porcupine.Operation{ClientId: in.worker, Input: in, Output: out, Call: from, Return: to})
	}
	sold := make(map[*Record]bool)
	for i := range l.sales {
		s := &l.sales[i]
		out := seen{
			outcome:   Accepted,
			told:      s.segment == 0 && !s.blind && l.held == 0,
			counted:   !l.Before.Mapped,
			read:      s.read,
			remaining: s.remaining,
			version:   s.version,
		}
		switch r := s.of; {
		case r == nil:
			add(call{quantity: s.quantity}, out, math.MinInt64, end)
		case r.Outcome == Accepted:
			add(call{quantity: s.quantity, worker: r.Worker}, out, r.began().UnixNano(), r.decided().UnixNano())
		default:
			add(call{quantity: s.quantity, worker: r.Worker}, out, r.began().UnixNano(), end)
		}
		sold[s.of] = true
	}
	for _, r := range l.records {
		in, from := call{quantity: r.Quantity, worker: r.Worker}, r.began().UnixNano()
		switch {
		case sold[r]:
		case r.Outcome == SoldOut && r.Purchase != nil: // carts may hold units: see falseSoldOut
		case r.Outcome == SoldOut:
			// Stock only goes down, so only the latest possible instant needs to be tried.
			add(in, seen{outcome: r.Outcome}, r.DoneAt.UnixNano(), r.DoneAt.UnixNano())
		case r.Outcome == Unknown && !l.Complete:
			add(in, seen{outcome: Unknown}, from, math.MaxInt64)
		}
	}
	if l.After != nil && l.Complete && l.held == 0 && len(ops) > 0 {
		add(call{}, seen{outcome: lookedAt, remaining: l.After.Quantity}, end+1, end+2)
	}
	return ops
}

// A call is a request to the counter, or the read of the store at the end.
type call struct {
	sku      int // index of the ledger
	quantity int64
	initial  int64 // units in stock before the run
	worker   int
}

// A seen is the result of a call.
type seen struct {
	outcome         Outcome // lookedAt: the final stock
	told            bool    // read, remaining and version are of the whole stock
	read, remaining int64
	version         uint64
	counted         bool // version counts the writes
}

// lookedAt is the pseudo-outcome of reading the final stock.
const lookedAt Outcome = "final-stock"

// units is the state of the counter.
type units struct {
	left    int64
	version uint64 // the version that the next sale reads; 0: not known
}

// counterModel returns the counter that every strategy should implement. Versions are compared from the first sale on.
// Busy replies are left out, because they do not depend on the stock and would multiply the orders to search.
func counterModel() porcupine.Model {
	return porcupine.Model{
		Partition: func(ops []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			for _, op := range ops {
				n := op.Input.(call).sku
				for len(parts) <= n {
					parts = append(parts, nil)
				}
				parts[n] = append(parts[n], op)
			}
			return slices.DeleteFunc(parts, func(p []porcupine.Operation) bool { return len(p) == 0 })
		},
		Init: func() any { return (*units)(nil) },
		Step: func(state, input, output any) (bool, any) {
			in, out := input.(call), output.(seen)
			now := units{left: in.initial}
			if s := state.(*units); s != nil {
				now = *s
			}
			ok := now.step(in, out)
			return ok, &now
		},
		Equal: func(a, b any) bool {
			x, y := a.(*units), b.(*units)
			return x == y || x != nil && y != nil && *x == *y
		},
	}
}

func (u *units) step(in call, out seen) bool {
	switch out.outcome {
	case Accepted:
		if u.left < in.quantity ||
			out.told &&
				(out.read != u.left || out.remaining != out.read-in.quantity ||
					u.version > 0 && out.counted && out.version != u.version) {
			return false
		}
		u.left -= in.quantity
		if out.told && out.counted {
			u.version = out.version + 1
		}
	case Unknown: // it may have sold; if not, it is placed at the end, where nothing contradicts it.
		if u.left >= in.quantity {
			u.left -= in.quantity
			if u.version > 0 {
				u.version++
			}
		}
	case SoldOut:
		return u.left < in.quantity
	case lookedAt:
		return u.left == out.remaining
	}
	return true
}
