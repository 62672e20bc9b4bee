package loadtest

import (
	"testing"
	"time"
)

// What a store that reports late may explain is looked at again: missing units, missing orders, and refusals that seem
// false. What two orders prove is not.
func TestWhatMayComeRight(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	// run is a run that sold two single units of ten to two requests, and refused a third one for twenty.
	run := func() *Evidence {
		before := Stock{SKU: "pen", Quantity: 10, Initial: 10, Version: 3, Epoch: 2}
		after := Stock{SKU: "pen", Quantity: 8, Initial: 10, Version: 5, Epoch: 2, Sold: 2}
		e := &Evidence{
			Accounts: []Account{{Before: before, After: &after, Complete: true}},
			Promise:  Promise{Scope: Cluster},
		}
		for i, id := range []string{"a", "b"} {
			read := 10 - int64(i)
			e.Records = append(e.Records, Record{
				Seq: i + 1, RequestID: id, SKU: "pen", Quantity: 1, SentAt: noon, DoneAt: noon.Add(time.Second),
				Reply: Reply{
					Outcome: Accepted, OrderID: "order-" + id,
					Receipt: &Receipt{Version: uint64(3 + i), Read: read, Remaining: read - 1, Epoch: 2},
				},
			})
			e.Accounts[0].Orders = append(e.Accounts[0].Orders, Order{
				OrderID: "order-" + id, RequestID: id, SKU: "pen", Quantity: 1, Read: read, Remaining: read - 1,
				Version: uint64(3 + i), Epoch: 2,
			})
		}
		e.Records = append(e.Records, Record{
			Seq: 3, RequestID: "c", SKU: "pen", Quantity: 20, SentAt: noon, DoneAt: noon.Add(time.Second),
			Reply: Reply{Outcome: SoldOut},
		})
		return e
	}
	for name, row := range map[string]struct {
		change func(*Evidence)
		want   bool
	}{
		"nothing is wrong": {func(*Evidence) {}, false},
		"a unit lost":      {func(e *Evidence) { e.Accounts[0].After.Quantity++ }, true},
		"a unit vanished":  {func(e *Evidence) { e.Accounts[0].After.Quantity-- }, true},
		"an order missing, and its unit with it": {func(e *Evidence) {
			e.Accounts[0].Orders = e.Accounts[0].Orders[:1]
			e.Accounts[0].After.Sold = 1
		}, true},
		"a count of units sold": {func(e *Evidence) { e.Accounts[0].After.Sold = 1 }, true},
		// Another request of somebody else may have sold the rest, and the store may not tell it yet.
		"a refusal":                      {func(e *Evidence) { e.Records[2].Quantity = 8 }, true},
		"an order of the wrong quantity": {func(e *Evidence) { e.Records[1].Quantity = 2 }, false},
		"an order of fewer units, in a foreign API": {func(e *Evidence) {
			e.Accounts[0].Before.Mapped, e.Records[1].Quantity = true, 2
		}, true},
		"an order of more units, in a foreign API": {func(e *Evidence) {
			e.Accounts[0].Before.Mapped, e.Records[1].Remaining = true, 7
			o := &e.Accounts[0].Orders[1]
			o.Quantity, o.Remaining, e.Accounts[0].After.Quantity = 2, 7, 7
		}, false},
		"fewer units, then as many": {func(e *Evidence) {
			e.Accounts[0].Before.Mapped, e.Records[0].Quantity = true, 2
			e.Records[1].Quantity, e.Records[1].Remaining = 1, 7
			o := &e.Accounts[0].Orders[1]
			o.Quantity, o.Remaining, e.Accounts[0].After.Quantity = 2, 7, 7
		}, true},
		"a unit lost, and two that read the same": {func(e *Evidence) {
			r, o := e.Records[1].Receipt, &e.Accounts[0].Orders[1]
			r.Version, r.Read, r.Remaining = 3, 10, 9
			o.Version, o.Read, o.Remaining = 3, 10, 9
		}, false},
		"more sold than there was": {func(e *Evidence) {
			before, after := &e.Accounts[0].Before, e.Accounts[0].After
			before.Quantity, before.Initial, after.Initial, after.Quantity = 1, 1, 1, 0
		}, false},
		"an order that did not read what the one before wrote": {func(e *Evidence) {
			r, o := e.Records[1].Receipt, &e.Accounts[0].Orders[1]
			r.Read, r.Remaining, o.Read, o.Remaining = 8, 7, 8, 7
			e.Accounts[0].After.Quantity = 7
		}, false},
		"two that read the same": {func(e *Evidence) {
			r, o := e.Records[1].Receipt, &e.Accounts[0].Orders[1]
			r.Version, r.Read, r.Remaining = 3, 10, 9
			o.Version, o.Read, o.Remaining = 3, 10, 9
			e.Accounts[0].After.Quantity = 9
		}, false},
	} {
		e := run()
		row.change(e)
		if v := Judge(*e); v.mayComeRight() != row.want {
			t.Errorf("%s: may come right: %v, want %v (%s %v)", name, !row.want, row.want, v.Finding, v.Reasons)
		}
	}
}
