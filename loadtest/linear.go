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

// MaxLinear is how many records a run may have for porcupine to look at it: the search is exponential at worst, and its picture is a
// page of some hundred bytes per record.
const MaxLinear = 10_000

// linearLimit ends the search. A run of MaxLinear records that is right takes some hundredths of a second.
const linearLimit = 2 * time.Second

// What the search for an order can end with. Only InOrder is a pass.
const (
	InOrder  = "ok"      // there is an order
	Illegal  = "illegal" // there is none
	GaveUp   = "unknown" // none was found in time
	NotAsked = "skipped" // it was not looked for; Why says why
)

// Linear says whether the requests can be put in an order, each at one instant between its sending and its reply, in which one counter would have
// given these replies (Herlihy and Wing, "Linearizability", 1990). The other findings do not look at time: a request that did not
// see what was sold before it was sent is found here alone. Times are the load generator's, so no clock of an instance matters.
type Linear struct {
	Result string `json:"result"`
	Why    string `json:"why,omitempty"` // unless it is ok
}

// Sentence says it in words.
func (l Linear) Sentence() string {
	switch l.Result {
	case InOrder:
		return "an order of the requests explains every reply: linearizable, by porcupine"
	case Illegal:
		return "not linearizable: " + l.Why
	case GaveUp:
		return "linearizable or not is not known: " + l.Why
	default:
		return "porcupine was not asked: " + l.Why
	}
}

// linear searches for an order of a run of n records, unless v proves already that there is none: to look through all orders of a
// burst in which everything collides could take longer than anybody waits.
func linear(v *Verdict, ledgers []*ledger, n int) Linear {
	ops, why := operations(ledgers, n)
	switch {
	case why != "":
		return Linear{NotAsked, why}
	case v.OversoldUnits > 0:
		return Linear{Illegal, "more was sold than there was, which no order of the requests explains"}
	case v.Collisions > 0:
		return Linear{Illegal, "two orders read the same version, which in no order of the requests a counter gives twice"}
	}
	return search(ops, linearLimit)
}

// search looks for an order for as long as limit.
func search(ops []porcupine.Operation, limit time.Duration) Linear {
	switch porcupine.CheckOperationsTimeout(counterModel(), ops, limit) {
	case porcupine.Ok:
		return Linear{Result: InOrder}
	case porcupine.Illegal:
		return Linear{Illegal, "no order of the requests in time explains the replies: some did not see what had been sold before they were sent"}
	default:
		return Linear{GaveUp, fmt.Sprintf("no order of the requests was found within %v, which is no proof that there is none", limit)}
	}
}

// WriteLinear writes porcupine's picture of the search as a page of HTML that needs nothing else. The error says why there is none, if so.
func WriteLinear(w io.Writer, r *Result) error {
	_, ledgers := settle(r.Records, r.Accounts, r.Strategy.Promise)
	ops, why := operations(ledgers, len(r.Records))
	if why != "" {
		return fmt.Errorf("there is nothing to draw: %s", why)
	}
	model := counterModel()
	_, info := porcupine.CheckOperationsVerbose(model, ops, linearLimit)
	return porcupine.Visualize(model, info, w)
}

// operations are the requests of n records as porcupine wants them, or why there are none. Intervals are those of the load generator. A sale of
// which nobody told the time may have been at any time before the last look at the orders.
func operations(ledgers []*ledger, n int) (ops []porcupine.Operation, why string) {
	if n > MaxLinear {
		return nil, fmt.Sprintf("the run has more than %d requests", MaxLinear)
	}
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
			outcome: Accepted, told: s.segment == 0 && !s.blind, counted: !l.Before.Mapped, read: s.read, remaining: s.remaining, version: s.version, who: s.instance,
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
