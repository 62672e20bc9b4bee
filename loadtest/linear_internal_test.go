package loadtest

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// The placement of sales and refusals, which needs no search, and porcupine, which searches, agree on every small
// history of a counter: right ones, those that served the past, and those with false refusals; with and without
// versions, in segments, with lost replies.
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
			version++
			if r.Reply = (Reply{Outcome: Accepted, OrderID: id, Receipt: &saw}); rapid.IntRange(0, 5).
				Draw(t, "lost") ==
				0 {
				r.Reply = Reply{Outcome: Unknown}
			}
			records = append(records, r)
		}
		after := a.Before
		after.Quantity = left
		after.Sold = initial - left
		a.After = &after
		v, ledgers := examine(Evidence{Records: records, Accounts: []Account{a}})
		ops, why := operations(ledgers)
		if why.EN != "" {
			return
		}
		if v.Collisions+v.StaleReads > 0 || v.OversoldUnits > 0 {
			t.Fatalf("the history is wrong by itself: %+v", v)
		}
		searched := porcupine.CheckOperationsTimeout(counterModel(), ops, 10*time.Second)
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
