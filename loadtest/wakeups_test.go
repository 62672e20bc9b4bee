package loadtest_test

import (
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// A column is there if a run has its figure: sales per batch, where a batch counts once, however many of its sales were
// told; wake-ups per sale, where only sales count.
func TestColumnsThatSomeRunsHave(t *testing.T) {
	run := func(receipts ...loadtest.Receipt) *loadtest.Result {
		r := new(loadtest.Result)
		for i := range receipts {
			r.Records = append(r.Records, loadtest.Record{
				Reply: loadtest.Reply{Outcome: loadtest.Accepted, Receipt: &receipts[i]},
			})
		}
		r.Records = append(r.Records, loadtest.Record{Reply: loadtest.Reply{Outcome: loadtest.SoldOut}})
		return r
	}
	merged := func(id string, size int) loadtest.Receipt {
		return loadtest.Receipt{Batch: &loadtest.Batch{ID: id, Place: 1, Size: size}}
	}
	for _, row := range []struct {
		column string
		run    *loadtest.Result
		shows  string
	}{
		{"/batch", run(merged("a", 4), merged("a", 4), merged("b", 9)), "6.5"},
		{"wakeups", run(loadtest.Receipt{Wakeups: 29}, loadtest.Receipt{Wakeups: 28}), "28.5"},
	} {
		for _, has := range []bool{false, true} {
			runs := []*loadtest.Result{run()}
			if has {
				runs = append(runs, row.run)
			}
			var table strings.Builder
			if err := report.WriteTable(&table, runs, report.Style{Width: 200}); err != nil {
				t.Fatal(err)
			}
			text := table.String()
			if strings.Contains(text, row.column) != has || has && !strings.Contains(text, row.shows) {
				t.Errorf("%s with %s: %v is not so in\n%s", row.column, row.shows, has, text)
			}
		}
	}
}
