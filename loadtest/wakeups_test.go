package loadtest_test

import (
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// The herd is a column of the table, for runs where somebody was woken; only sales count.
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
		if err := loadtest.WriteTable(&table, row.runs, loadtest.Style{Width: 200}); err != nil {
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
