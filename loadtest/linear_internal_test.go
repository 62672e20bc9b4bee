package loadtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// The placement of sales and refusals, which needs no search, and porcupine, which searches, agree on every small
// history of a counter: right ones, those that served the past, and those with false refusals; with and without
// versions, in segments, with lost replies, with writes of nobody.
func TestPlacementAgreesWithPorcupine(t *testing.T) {
	counts := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		initial := rapid.Int64Range(0, 12).Draw(t, "stock")
		mapped := rapid.Bool().Draw(t, "mapped")
		blind := mapped && rapid.Bool().Draw(t, "blind")
		at := func(name string, from int) time.Time {
			return time.Unix(1000, int64(rapid.IntRange(from, from+12).Draw(t, name)))
		}
		a := Account{Before: Stock{SKU: "pen", Quantity: initial, Mapped: mapped}, Complete: true}
		left, version := initial, uint64(0)
		var records []Record
		for i := range rapid.IntRange(1, 8).Draw(t, "requests") {
			want := rapid.Int64Range(1, 3).Draw(t, "want")
			sent := at("sent", 0)
			r := Record{
				Seq: i + 1, Worker: i, RequestID: fmt.Sprintf("r%d", i), SKU: "pen", Quantity: want,
				SentAt: sent, DoneAt: sent.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "took"))),
			}
			if left < want || rapid.IntRange(0, 4).Draw(t, "refuse") == 0 {
				r.Reply = Reply{Outcome: SoldOut}
				records = append(records, r)
				continue
			}
			if mapped {
				version = uint64(initial - left)
			}
			saw := Receipt{Read: left, Remaining: left - want, Version: version, Blind: blind}
			id := fmt.Sprintf("o%d", i)
			a.Orders = append(a.Orders, Order{
				OrderID:   id,
				SKU:       "pen",
				Quantity:  want,
				Read:      saw.Read,
				Remaining: saw.Remaining,
				Version:   version,
				RequestID: r.RequestID,
				Blind:     blind,
			})
			left -= want
			if version++; rapid.IntRange(0, 19).Draw(t, "skip") == 0 {
				version++ // a write of nobody
			}
			if r.Reply = (Reply{Outcome: Accepted, OrderID: id, Receipt: &saw}); rapid.IntRange(0, 5).
				Draw(t, "lost") ==
				0 {
				r.Reply = Reply{Outcome: Unknown}
			}
			records = append(records, r)
		}
		after := a.Before
		after.Quantity = left + max(0, rapid.Int64Range(-19, 1).Draw(t, "found")) // units of nobody
		after.Sold = initial - left
		a.After = &after
		v, ledgers := examine(Evidence{Records: records, Accounts: []Account{a}})
		if why := notAsked(ledgers); why.EN != "" {
			return
		}
		if v.Collisions+v.StaleReads > 0 || v.OversoldUnits > 0 {
			t.Fatalf("the history is wrong by itself: %+v", v)
		}
		searched := porcupine.CheckOperationsTimeout(counterModel(), ledgers[0].operations(), 10*time.Second)
		placed := ledgers[0].order()
		if (placed.EN == "") != (searched == porcupine.Ok) {
			t.Fatalf("placement says %q, porcupine %s", placed, searched)
		}
		counts[placed.EN == ""]++
	})
	if counts[true] == 0 || counts[false] == 0 {
		t.Errorf("of one sort there was none: %v", counts)
	}
}

// operations returns the requests as input for porcupine. Times are the load generator's. A sale of unknown time may
// have happened at any time before the orders were last read.
func (l *ledger) operations() []porcupine.Operation {
	var ops []porcupine.Operation
	end := int64(0)
	for _, r := range l.records {
		end = max(end, r.DoneAt.UnixNano()+1)
	}
	add := func(in call, out seen, from, to int64) {
		in.initial = l.Before.Quantity
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
	// Sort by time, because porcupine keeps equal times in the order of the list.
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

// A call is a request to the counter, or the read of the store at the end.
type call struct {
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
