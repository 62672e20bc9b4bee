package mapping_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// What a status alone says of a reply, for tools that count replies by status.
func TestAccepts(t *testing.T) {
	t.Parallel()
	of := func(rules string) *mapping.File {
		m, err := mapping.Parse([]byte("read: {path: /left, quantity: left}\ndeduct:\n  path: /take\n" + rules))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	byStatus := of("  accepted: {status: [200, 303]}\n  sold_out: {status: 409}\n")
	byField := of("  accepted: {status: 2xx, field: code, equals: 0}\n" +
		"  sold_out: {status: 2xx, field: code, equals: 1}\n")
	shared := of("  accepted: {field: ok, equals: true}\n")
	for _, row := range []struct {
		file              *mapping.File
		status            int
		always, sometimes bool
	}{
		{byStatus, 200, true, false},
		{byStatus, 303, true, false},
		{byStatus, 201, false, false},
		{byStatus, 409, false, false},
		{byField, 200, false, true},
		{byField, 409, false, false},
		{shared, 500, false, true},
	} {
		if always, sometimes := row.file.Accepts(row.status); always != row.always || sometimes != row.sometimes {
			t.Errorf("%d: always %v, sometimes %v; want %v, %v", row.status, always, sometimes, row.always,
				row.sometimes)
		}
	}
}

// Without the number of units at first, what can be told is told, and what is missing is named.
func TestInspectWithoutTheInitialStock(t *testing.T) {
	t.Parallel()
	told := strings.Replace(foreignMapping, "  request_id: ref\n", "  request_id: ref\n  remaining: after\n", 1)
	once := new(time.Duration)
	for _, row := range []struct {
		name, mapping string
		orders        []string
		want          loadtest.Finding
		says          string
	}{
		{
			"right", told,
			[]string{`{"id":1,"n":1,"ref":"a","after":9}`, `{"id":2,"n":1,"ref":"b","after":8}`},
			loadtest.Undecided,
			"how many units there were at first is not known, so units that were lost or oversold are not seen: " +
				"tell with --initial (10 are left and in the orders together)",
		},
		{
			"two read the same", told,
			[]string{`{"id":1,"n":1,"ref":"a","after":8}`, `{"id":2,"n":1,"ref":"b","after":8}`},
			loadtest.Broken, "1 pair of orders read the same quantity",
		},
	} {
		f := &foreign{left: 8, orders: row.orders}
		target, _ := f.open(t, row.mapping)
		i, err := loadtest.Inspect(t.Context(), target, loadtest.Look{SKU: "x", Recheck: once})
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, r := range i.Reasons {
			said += r.Text.EN + "\n"
		}
		if i.Finding != row.want || !strings.Contains(said, row.says) {
			t.Errorf("%s: %s: %s; want %s: %s", row.name, i.Finding, said, row.want, row.says)
		}
	}
	least := foreignMapping[:strings.Index(foreignMapping, "orders:")]
	target, _ := (&foreign{left: 8}).open(t, least)
	_, err := loadtest.Inspect(t.Context(), target, loadtest.Look{SKU: "x", Recheck: once})
	if plan := new(loadtest.PlanError); !errors.As(err, &plan) || plan.Field != "initial" {
		t.Errorf("of an API that lists no orders: %v", err)
	}
}

// Without orders, the count of a tool is the evidence. What the tool did not count may have sold.
func TestInspectWithoutOrders(t *testing.T) {
	t.Parallel()
	least := foreignMapping[:strings.Index(foreignMapping, "orders:")]
	n := func(n int64) *int64 { return &n }
	once, many := new(time.Duration), int64(1_000_000_000_000)
	for _, row := range []struct {
		name string
		look loadtest.Look
		want loadtest.Finding
		says string
	}{
		{"all were counted", loadtest.Look{Accepted: n(92)}, loadtest.Holds, ""},
		{"too many", loadtest.Look{Accepted: n(93)}, loadtest.Broken, "1 unit lost"},
		{"too few", loadtest.Look{Accepted: n(91)}, loadtest.Broken, "1 unit vanished"},
		{"far too many", loadtest.Look{Accepted: &many}, loadtest.Broken, "999999999908 units lost"},
		{"cut off at the end", loadtest.Look{Accepted: n(91), CutOff: 2}, loadtest.Undecided, "unknown for 1 unit"},
		{"more than was cut off", loadtest.Look{Accepted: n(90), CutOff: 1}, loadtest.Broken, "1 unit vanished"},
		{"cut off, and they sold nothing", loadtest.Look{Accepted: n(92), CutOff: 2}, loadtest.Holds, ""},
		{"of two units", loadtest.Look{Accepted: n(45), CutOff: 1, Quantity: 2}, loadtest.Undecided, "for 2 units"},
		{"at least", loadtest.Look{AtLeast: n(40)}, loadtest.Undecided, "stopped counting replies at a limit"},
		{"as many at least", loadtest.Look{AtLeast: n(92)}, loadtest.Undecided, "at least 92 were accepted"},
		{"too many at least", loadtest.Look{AtLeast: n(93)}, loadtest.Broken, "1 unit lost"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // each waits for the stock to be at rest
			target, _ := (&foreign{left: 8}).open(t, least)
			row.look.SKU, row.look.Initial, row.look.Recheck = "x", n(100), once
			i, err := loadtest.Inspect(t.Context(), target, row.look)
			if err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(i.Reasons)
			if i.Finding != row.want || !strings.Contains(said, row.says) {
				t.Errorf("%s: %s; want %s: %s", i.Finding, said, row.want, row.says)
			}
		})
	}
}
