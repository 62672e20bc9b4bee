package loadtest_test

import (
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// Round trips are a column for services that report them. A strategy without a lock has none.
func TestTheTableShowsRoundTrips(t *testing.T) {
	run := func(trips int) *loadtest.Result {
		return &loadtest.Result{Strategy: loadtest.Strategy{RoundTrips: trips}}
	}
	for _, row := range []struct {
		runs []*loadtest.Result
		want string
	}{
		{[]*loadtest.Result{run(0), run(0)}, ""},
		{[]*loadtest.Result{run(0), run(7)}, "–7"},
	} {
		var table strings.Builder
		if err := report.WriteTable(&table, row.runs, report.Style{Width: 200}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(table.String(), "\n")
		at := strings.Index(lines[1], "trips")
		if (at >= 0) != (row.want != "") {
			t.Fatalf("want %q in\n%s", row.want, table.String())
		}
		if at < 0 {
			continue
		}
		got := ""
		for _, line := range lines[2:4] {
			got += strings.TrimSpace(string([]rune(line)[at : at+len("trips")]))
		}
		if got != row.want {
			t.Errorf("got %q, want %q in\n%s", got, row.want, table.String())
		}
	}
}

// Sales per batch are a column for strategies that merge. A batch counts once, however many of its sales were told.
func TestTheTableShowsSalesPerBatch(t *testing.T) {
	run := func(batches ...*loadtest.Batch) *loadtest.Result {
		r := &loadtest.Result{}
		for _, b := range batches {
			r.Records = append(r.Records, loadtest.Record{
				Reply: loadtest.Reply{Outcome: loadtest.Accepted, Receipt: &loadtest.Receipt{Batch: b}},
			})
		}
		return r
	}
	if n := run(nil).PerBatch(); n != 0 {
		t.Errorf("%v sales per batch, but there is none", n)
	}
	a := &loadtest.Batch{ID: "a", Place: 1, Size: 4}
	for _, row := range []struct {
		runs []*loadtest.Result
		want string
	}{
		{[]*loadtest.Result{run(nil, nil), run()}, ""},
		{[]*loadtest.Result{run(a, a, a, &loadtest.Batch{ID: "b", Place: 9, Size: 9}), run(nil)}, "6.5"},
	} {
		var table strings.Builder
		if err := report.WriteTable(&table, row.runs, report.Style{Width: 200}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(table.String(), "/batch") != (row.want != "") ||
			!strings.Contains(table.String(), row.want) {
			t.Errorf("want %q per batch in\n%s", row.want, table.String())
		}
	}
}

// Wake-ups are a column for runs in which a waiter was woken. Only sales count.
func TestTheTableShowsWakeUps(t *testing.T) {
	run := func(wakeups ...int) *loadtest.Result {
		r := &loadtest.Result{}
		for _, n := range wakeups {
			r.Records = append(r.Records, loadtest.Record{
				Reply: loadtest.Reply{Outcome: loadtest.Accepted, Receipt: &loadtest.Receipt{Wakeups: n}},
			})
		}
		r.Records = append(r.Records, loadtest.Record{Reply: loadtest.Reply{Outcome: loadtest.SoldOut}})
		return r
	}
	for _, row := range []struct {
		runs []*loadtest.Result
		want []string
	}{
		{[]*loadtest.Result{run(0, 0), run()}, nil},
		{[]*loadtest.Result{run(1, 1, 1, 0), run(29, 28)}, []string{"wakeups", "0.8", "28.5"}},
	} {
		var table strings.Builder
		if err := report.WriteTable(&table, row.runs, report.Style{Width: 200}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(table.String(), "wakeups") != (row.want != nil) {
			t.Errorf("the column is there: %v\n%s", row.want == nil, table.String())
		}
		for _, want := range row.want {
			if !strings.Contains(table.String(), want) {
				t.Errorf("no %s in\n%s", want, table.String())
			}
		}
	}
}
