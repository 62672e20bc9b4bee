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
	const says = "how many units there were at first is not known, so units that were lost or oversold are not seen: " +
		"tell with --initial (10 are left and in the orders together)"
	look := loadtest.Look{SKU: "x", Recheck: new(time.Duration)}
	f := &foreign{left: 8, orders: []string{`{"id":1,"n":1,"ref":"a"}`, `{"id":2,"n":1,"ref":"b"}`}}
	target, _ := f.open(t, foreignMapping)
	i, err := loadtest.Inspect(t.Context(), target, look)
	if err != nil || i.Finding != loadtest.Undecided || !strings.Contains(fmt.Sprint(i.Reasons), says) {
		t.Errorf("%+v, %v", i, err)
	}
	target, _ = f.open(t, foreignMapping[:strings.Index(foreignMapping, "orders:")])
	for _, missing := range []string{"initial", "accepted"} {
		_, err := loadtest.Inspect(t.Context(), target, look)
		if plan := new(loadtest.PlanError); !errors.As(err, &plan) || plan.Field != missing {
			t.Errorf("of an API that lists no orders, without %s: %v", missing, err)
		}
		look.Initial = new(int64(100))
	}
}
