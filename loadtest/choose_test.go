package loadtest_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

func TestChoose(t *testing.T) {
	catalogue := []loadtest.Strategy{
		{Name: "none", Available: true, Stores: []string{"redis", "mysql"}},
		{Name: "zk", Reason: "ZooKeeper is down"},
		{Name: "pessimistic", Available: true, Stores: []string{"mysql"}},
	}
	for _, row := range []struct {
		given, store, want, leftOut, err string
	}{
		{given: "none", want: "none"},
		{given: "pessimistic,none", want: "pessimistic,none"},
		{given: "zk", want: "zk"}, // Run says why not
		{given: "all", want: "none,pessimistic", leftOut: "zk is left out: ZooKeeper is down"},
		{given: "all", store: "redis", want: "none", leftOut: "pessimistic is left out: it works on mysql, not on redis"},
		{given: "all", store: "oracle", err: "the target can run none now"},
		{given: "", err: "is missing: give a name, several with commas, or all; the target has none, zk, pessimistic"},
		{given: "all,none", err: "all stands alone"},
		{given: "none,all", err: "all stands alone"},
		{given: "none,none", err: "none is named twice"},
		{given: "nun", err: `"nun" is not known to the target; it has none, zk, pessimistic`},
	} {
		var given []string
		if row.given != "" {
			given = strings.Split(row.given, ",")
		}
		chosen, leftOut, err := loadtest.Choose(catalogue, given, row.store)
		var got []string
		for _, s := range chosen {
			got = append(got, s.Name)
		}
		if strings.Join(got, ",") != row.want || !strings.Contains(strings.Join(leftOut, "\n"), row.leftOut) {
			t.Errorf("Choose(%q, %q) = %v, %v", row.given, row.store, got, leftOut)
		}
		if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("Choose(%q, %q): %v, want %q", row.given, row.store, err, row.err)
		}
	}
}

func TestProgress(t *testing.T) {
	steps := []loadtest.Progress{
		{Done: 1, Total: 9, Elapsed: time.Second, Rate: 1, Outcomes: map[loadtest.Outcome]int{loadtest.Accepted: 1}},
		{Done: 2, Total: 9, Elapsed: 2 * time.Second, Rate: 1, Outcomes: map[loadtest.Outcome]int{loadtest.Busy: 2}},
		{Done: 3, Total: 9, Elapsed: 3 * time.Second, Rate: 1, Outcomes: map[loadtest.Outcome]int{loadtest.SoldOut: 3}},
		{Done: 9, Total: 9, Elapsed: 3 * time.Second, Rate: 3, Last: true, Outcomes: map[loadtest.Outcome]int{loadtest.Failed: 9}},
	}
	for _, row := range []struct {
		columns int
		want    string
	}{
		{0, "none: 2 of 9, 1/s, accepted 0, busy 2, sold out 0\nnone: 9 of 9, 3/s, accepted 0, busy 0, sold out 0, failed or unknown 9\n"},
		{21, "\r\x1b[Knone: 1 of 9, 1/s, a\r\x1b[Knone: 2 of 9, 1/s, a\r\x1b[Knone: 3 of 9, 1/s, a\r\x1b[K"},
	} {
		var b bytes.Buffer
		show := loadtest.ShowProgress(&b, "none", row.columns)
		for _, p := range steps {
			show(p)
		}
		if b.String() != row.want {
			t.Errorf("%d columns: got %q, want %q", row.columns, b.String(), row.want)
		}
	}
}
