package soak

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// bought returns a record and its order: of quantity units, which read read units and version v.
func bought(id string, quantity, read int64, v uint64, outcome loadtest.Outcome) (loadtest.Record, loadtest.Order) {
	r := loadtest.Record{
		RequestID: id, Strategy: "redis-watchdog", Store: "redis", SKU: "s", Quantity: quantity,
		SentAt: time.Unix(int64(v), 0), DoneAt: time.Unix(int64(v), 1), Reply: loadtest.Reply{Outcome: outcome},
	}
	if outcome == loadtest.Accepted {
		r.OrderID, r.Receipt = "o"+id, &loadtest.Receipt{Read: read, Remaining: read - quantity, Version: v, Epoch: 1}
	}
	return r, loadtest.Order{
		OrderID: "o" + id, RequestID: id, SKU: "s", Quantity: quantity, Read: read, Remaining: read - quantity,
		Version: v, Epoch: 1,
	}
}

// Each way in which the invariant can be broken shows in its own column and breaks the soak; what is whole does not.
func TestTheInvariant(t *testing.T) {
	a, oa := bought("a", 2, 10, 0, loadtest.Accepted)
	b, ob := bought("b", 3, 8, 1, loadtest.Accepted)
	unknown, _ := bought("b", 3, 8, 1, loadtest.Unknown)
	stale, os := bought("b", 3, 10, 0, loadtest.Accepted)
	both, either, first := []loadtest.Record{a, b}, []loadtest.Record{a, unknown}, []loadtest.Order{oa}
	for _, row := range []struct {
		name    string
		records []loadtest.Record
		orders  []loadtest.Order
		left    int64
		want    Result // of which the sums and the number of units are looked at
		breaks  string
	}{
		{"whole", both, []loadtest.Order{oa, ob}, 5, Result{SoldUnits: 5}, ""},
		{"an unknown outcome that sold", either, []loadtest.Order{oa, ob}, 5, Result{SoldUnits: 5, Found: 1}, ""},
		{"an unknown outcome that did not", either, first, 8, Result{SoldUnits: 2}, ""},
		{
			"an order without a deduction",
			[]loadtest.Record{a, stale},
			[]loadtest.Order{oa, os},
			7,
			Result{SoldUnits: 5, NotDeducted: 2, Breaks: 1},
			"2 units lost",
		},
		{
			"a deduction without an order",
			[]loadtest.Record{a},
			first, 5,
			Result{SoldUnits: 2, NotOrdered: 3},
			"3 units vanished",
		},
		{"accepted without an order", both, first, 5, Result{SoldUnits: 5, Lost: 1}, "phantoms: 1"},
	} {
		sold := int64(0)
		for _, o := range row.orders {
			sold += o.Quantity
		}
		account := loadtest.Account{
			Store: "redis", Orders: row.orders, Complete: true,
			Before: loadtest.Stock{SKU: "s", Store: "redis", Quantity: 10, Initial: 10, Epoch: 1},
			After: &loadtest.Stock{
				SKU: "s", Store: "redis", Quantity: row.left, Initial: 10, Sold: sold, Version: uint64(len(row.orders)),
				Epoch: 1,
			},
		}
		turn := &loadtest.Result{Records: row.records, Accounts: []loadtest.Account{account}}
		turn.Verdict = loadtest.Judge(loadtest.Evidence{
			Records: turn.Records, Accounts: turn.Accounts,
			Promise: loadtest.Promise{Exclusive: true, Scope: loadtest.Cluster, Fenced: true},
		})
		l := newResult("redis-watchdog", "redis")
		l.add(turn)
		got := Result{
			SoldUnits: l.SoldUnits, Found: l.Found, NotDeducted: l.NotDeducted, NotOrdered: l.NotOrdered, Lost: l.Lost,
			Breaks: l.Breaks,
		}
		if !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
		report := Report{Health: Health{LimitMS: 1}, Results: []Result{l}, Checkout: checkoutHolds()}
		text := words.Join(report.Violations(), words.Same("\n")).EN
		if (row.breaks == "") != (text == "") || !strings.Contains(text, row.breaks) {
			t.Errorf("%s: violations %q, want %q", row.name, text, row.breaks)
		}
	}
}

func TestUntouched(t *testing.T) {
	before := loadtest.Stock{SKU: "s", Quantity: 10, Epoch: 1}
	after := before
	turn := &loadtest.Result{
		Records:  []loadtest.Record{{Quantity: 1, Reply: loadtest.Reply{Outcome: loadtest.Failed}}},
		Accounts: []loadtest.Account{{Before: before, After: &after}},
	}
	if !untouched(turn) {
		t.Error("a SKU from which nobody bought is not untouched")
	}
	after.Quantity = 9
	if untouched(turn) {
		t.Error("a SKU from which a unit is gone is untouched")
	}
	turn.Accounts[0].After = nil
	if untouched(turn) {
		t.Error("a SKU whose stock is unknown is untouched")
	}
}

func TestViolationsBesideTheInvariant(t *testing.T) {
	for _, row := range []struct {
		report Report
		want   string
	}{
		{Report{Health: Health{LimitMS: 15000, AfterMS: 15000}}, ""},
		{Report{Health: Health{LimitMS: 15000, AfterMS: 15001}}, "healthy only 15.001s after the last fault"},
		{
			Report{Health: Health{
				LimitMS: 15000, AfterMS: 3, Missing: []words.Text{words.Same("atomic sells nothing on redis")},
			}},
			"atomic sells nothing on redis",
		},
		{
			Report{
				Injected: []Injected{{Text: words.Same("kill redis for 1s"), Error: "no"}},
				Health:   Health{LimitMS: 1},
			},
			"kill redis for 1s: no",
		},
	} {
		row.report.Checkout = checkoutHolds()
		if text := words.Join(row.report.Violations(), words.Same("\n")).EN; (row.want == "") != (text == "") ||
			!strings.Contains(text, row.want) {
			t.Errorf("%q, want %q", text, row.want)
		}
	}
}

func checkoutHolds() Checkout { return Checkout{Verdict: checkout.Verdict{Finding: loadtest.Holds}} }

// What is not promised is not asked for, and the reader is told why.
func TestUnsuited(t *testing.T) {
	for _, row := range []struct {
		promise loadtest.Promise
		want    string
	}{
		{loadtest.Promise{Scope: loadtest.Nowhere}, "promises no exclusion"},
		{loadtest.Promise{Scope: loadtest.Process}, "ends with the process"},
		{loadtest.Promise{Scope: loadtest.Cluster}, "no fence"},
		{loadtest.Promise{Scope: loadtest.Cluster, Fenced: true}, ""},
	} {
		got := unsuited(loadtest.Strategy{Available: true, Promise: row.promise})
		if (row.want == "") != (got.EN == "") || !strings.Contains(got.EN, row.want) {
			t.Errorf("%+v: %q, want %q", row.promise, got, row.want)
		}
	}
	if got := unsuited(
		loadtest.Strategy{Reason: "down", Promise: loadtest.Promise{Scope: loadtest.Cluster, Fenced: true}},
	); !strings.Contains(got.EN, "down") {
		t.Errorf("not available: %q", got)
	}
}
