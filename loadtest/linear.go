package loadtest

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// MaxLinear is how many records a run may have for porcupine to look at it: the search is exponential at worst, and
// its picture is a page of some hundred bytes per record.
const MaxLinear = 10_000

// linearLimit ends the search. A run of MaxLinear records that is right takes some hundredths of a second.
const linearLimit = 2 * time.Second

// What the look for an order can end with. Only InOrder is a pass.
const (
	InOrder  = "ok"      // there is an order
	Illegal  = "illegal" // there is none
	NotAsked = "skipped" // it was not looked for; Why says why
)

// Linear says whether the requests can be put in an order, each at one instant between its sending and its reply, in
// which one counter would have given these replies (Herlihy and Wing, "Linearizability", 1990). The other findings do
// not look at time: a request that did not see what was sold before it was sent is found here alone. Times are the
// load generator's, so no clock of an instance matters.
type Linear struct {
	Result string `json:"result"`
	Why    string `json:"why,omitempty"` // unless it is ok
}

// Sentence returns l in words.
func (l Linear) Sentence() string {
	switch l.Result {
	case InOrder:
		return "an order of the requests explains every reply: linearizable"
	case Illegal:
		return "not linearizable: " + l.Why
	default:
		return "no order was looked for: " + l.Why
	}
}

// linear looks for an order of a run of n records in time. For a counter that only goes down no search is needed,
// whatever the size of the run: see [ledger.place]. Up to MaxLinear records porcupine, which searches and knows
// nothing of that argument, is asked as well; if it gives up, the order that was found stands, and if it finds that
// there is none, that counts.
func linear(v *Verdict, ledgers []*ledger, n int) Linear {
	ops, why := operations(ledgers)
	switch {
	case why != "":
		return Linear{NotAsked, why}
	case v.OversoldUnits > 0:
		return Linear{Illegal, "more was sold than there was, which no order of the requests explains"}
	case v.Collisions > 0:
		return Linear{
			Illegal,
			"two orders read the same version, which in no order of the requests a counter gives twice",
		}
	case v.StaleReads > 0:
		return Linear{Illegal, "an order did not read what the order before it wrote"}
	}
	why = ""
	for _, l := range ledgers {
		if wrong := l.place(); why == "" {
			why = wrong
		}
	}
	if why != "" {
		return Linear{Illegal, why}
	}
	if n <= MaxLinear && porcupine.CheckOperationsTimeout(counterModel(), ops, linearLimit) == porcupine.Illegal {
		return Linear{
			Illegal,
			"no order of the requests in time explains the replies: some did not see what had been sold before " +
				"they were sent",
		}
	}
	return Linear{Result: InOrder}
}

// place puts the sales and refusals of one SKU in order, each at an instant between its sending and its reply, or
// says why that cannot be done.
//
// Stock only goes down during a run. So a refusal is best explained by the lowest stock that there can have been
// before it was answered, and that is there if every sale happens as early as it can: when it was sent, or, since the
// versions say in which order sales read and wrote, when the last of the sales before it in that order was sent.
// Placed so, a sale that was answered before that instant, or a refusal which was answered while there was enough,
// has no place in any order. If there is no such sale or refusal, the placement is an order.
//
// What was left at the end and all that was sold after an instant was there at that instant. This counts up from the
// end rather than down from the beginning, so that sales that are not known can only add to it: a refusal is never
// called false because of an order that is missing.
func (l *ledger) place() (why string) {
	sales := make([]*sale, len(l.sales))
	for i := range l.sales {
		sales[i] = &l.sales[i]
	}
	slices.SortStableFunc(sales, func(a, b *sale) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.version, b.version))
	})
	var last *sale // the one of the chain that was sent last
	for _, s := range sales {
		s.earliest = s.sent()
		if s.blind {
			continue
		}
		if last != nil && last.segment != s.segment {
			last = nil
		}
		if last != nil && last.earliest.After(s.earliest) {
			s.earliest = last.earliest
		}
		if s.of != nil && s.of.Outcome == Accepted && s.of.DoneAt.Before(s.earliest) && why == "" {
			why = fmt.Sprintf("no order of the requests in time explains the replies: request %s was sent after "+
				"request %s had been answered, and its order %s came before: it read version %d, the other %d",
				last.first.request, s.request, last.first.order, last.first.version, s.version)
		}
		if last == nil || s.earliest.After(last.earliest) {
			s.first = s
		} else {
			s.first = last.first
		}
		last = s
	}
	if wrong := l.falseSoldOut(sales); why == "" {
		why = wrong
	}
	return why
}

// sent returns the earliest instant at which the sale can have been made: zero if its request is not known.
func (s *sale) sent() time.Time {
	if s.of == nil {
		return time.Time{}
	}
	return s.of.SentAt
}

// falseSoldOut finds refusals for want of stock that were answered while there was enough. Sales have been placed.
func (l *ledger) falseSoldOut(sales []*sale) (why string) {
	if l.After == nil {
		return ""
	}
	slices.SortFunc(sales, func(a, b *sale) int { return b.earliest.Compare(a.earliest) })
	refused := slices.DeleteFunc(slices.Clone(l.records), func(r *Record) bool { return r.Outcome != SoldOut })
	slices.SortFunc(refused, func(a, b *Record) int { return b.DoneAt.Compare(a.DoneAt) })
	least, next, count := l.After.Quantity, 0, 0
	var first *Record
	var left int64
	for _, r := range refused { // the last first
		for next < len(sales) && sales[next].earliest.After(r.DoneAt) {
			least += sales[next].quantity
			next++
		}
		if r.Quantity <= least {
			count++
			first, left = r, least
		}
	}
	if count == 0 {
		return ""
	}
	l.verdict.FalseSoldOut += count
	l.verdict.late = true // the stock at the end may have been told late
	why = fmt.Sprintf("%s answered sold out although there was enough: request %s asked for %d, and %s left when it "+
		"was answered", plural(count, "request"), first.RequestID, first.Quantity, plural(left, "unit"))
	l.because(AboutStock, "%s", why)
	return why
}

// WriteLinear writes porcupine's picture of the search as a page of HTML that needs nothing else. The error says why
// there is none, if so.
func WriteLinear(w io.Writer, r *Result) error {
	_, ledgers := examine(r.evidence())
	ops, why := operations(ledgers)
	if len(r.Records) > MaxLinear {
		why = fmt.Sprintf("the run has more than %d requests", MaxLinear)
	}
	if why != "" {
		return fmt.Errorf("there is nothing to draw: %s", why)
	}
	model := counterModel()
	_, info := porcupine.CheckOperationsVerbose(model, ops, linearLimit)
	return porcupine.Visualize(model, info, w)
}

// operations returns the requests in the form that porcupine takes, or why there are none. Intervals are those of the
// load generator. A sale whose time is not known may have been at any time before the last look at the orders.
func operations(ledgers []*ledger) (ops []porcupine.Operation, why string) {
	for number, l := range ledgers {
		switch {
		case l.Before.SKU == "":
			return nil, "the stock before the run is not known"
		case l.otherEpoch > 0 || l.After != nil && l.After.Epoch != l.Before.Epoch:
			return nil, "the stock was set again during the run"
		}
		ops = append(ops, l.operations(number)...)
	}
	if len(ops) == 0 {
		return nil, "nothing was sold or refused"
	}
	// By time: porcupine gives equal times the order of the list.
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops, ""
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
			told:      s.segment == 0 && !s.blind,
			counted:   !l.Before.Mapped,
			read:      s.read,
			remaining: s.remaining,
			version:   s.version,
			who:       s.instance,
		}
		switch r := s.of; {
		case r == nil:
			add(call{quantity: s.quantity}, out, math.MinInt64, end)
		case r.Outcome == Accepted:
			add(call{quantity: s.quantity, worker: r.Worker}, out, r.SentAt.UnixNano(), r.DoneAt.UnixNano())
		default:
			add(call{quantity: s.quantity, worker: r.Worker}, out, r.SentAt.UnixNano(), end)
		}
		sold[s.of] = true
	}
	for _, r := range l.records {
		in, from := call{quantity: r.Quantity, worker: r.Worker}, r.SentAt.UnixNano()
		switch {
		case sold[r]:
		case r.Outcome == SoldOut:
			// Stock only goes down, so its best place is its last: one place to try instead of many.
			add(in, seen{outcome: r.Outcome, who: r.Instance}, r.DoneAt.UnixNano(), r.DoneAt.UnixNano())
		case r.Outcome == Unknown && !l.Complete:
			add(in, seen{outcome: Unknown, who: r.Instance}, from, math.MaxInt64)
		}
	}
	if l.After != nil && l.Complete && len(ops) > 0 {
		add(call{}, seen{outcome: lookedAt, remaining: l.After.Quantity}, end+1, end+2)
	}
	return ops
}

// A call is what was asked of the counter, or of the store at the end.
type call struct {
	sku      int // number of the ledger
	quantity int64
	initial  int64 // units in stock before the run
	worker   int
}

// A seen is what came of a call.
type seen struct {
	outcome         Outcome // lookedAt: the final stock
	told            bool    // read, remaining and version are of the whole stock
	read, remaining int64
	version         uint64
	counted         bool // version counts the writes
	who             string
}

// lookedAt is the pseudo-outcome of the look at the final stock.
const lookedAt Outcome = "final stock"

// units is the state of the counter.
type units struct {
	left    int64
	version uint64 // that the next sale reads; 0: not known
}

// counterModel returns the counter that every strategy should be. Versions are compared from the first sale on. Busy is
// left out: it says nothing about the stock, and would multiply the orders to look through.
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
		DescribeOperation: func(input, output any) string { return describe(input.(call), output.(seen)) },
		DescribeState: func(state any) string {
			if s := state.(*units); s != nil {
				return fmt.Sprintf("%d left", s.left)
			}
			return "as set"
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
	case Unknown: // it may have sold. If it did not, its place is at the end, where nothing can contradict it.
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

func describe(in call, out seen) string {
	switch {
	case out.outcome == lookedAt:
		return fmt.Sprintf("final stock: %d", out.remaining)
	case out.outcome == Accepted && out.told:
		return fmt.Sprintf("%s: sell %d: read %d (version %d), wrote %d", out.who, in.quantity, out.read, out.version,
			out.remaining)
	}
	return fmt.Sprintf("%s: sell %d: %s", out.who, in.quantity, out.outcome)
}
