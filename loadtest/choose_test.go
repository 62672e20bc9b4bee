package loadtest_test

import (
	"fmt"
	"strings"
	"testing"

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
		{
			given: "all", store: "redis", want: "none",
			leftOut: "pessimistic is left out: it works on mysql, not on redis",
		},
		{given: "all", store: "oracle", err: "the target can run none now"},
		{given: "", err: "is missing: give a name, several with commas, or all; the target has none, zk, pessimistic"},
		{given: "all,none", err: "all stands alone"},
		{given: "none,all", err: "all stands alone"},
		{given: "none,none", err: "none is named twice"},
		{given: "nun", err: `unknown strategy "nun"; did you mean none?`},
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
		if strings.Join(got, ",") != row.want || !strings.Contains(fmt.Sprint(leftOut), row.leftOut) {
			t.Errorf("Choose(%q, %q) = %v, %v", row.given, row.store, got, leftOut)
		}
		if row.err == "" && err != nil || row.err != "" && (err == nil || !strings.Contains(err.Error(), row.err)) {
			t.Errorf("Choose(%q, %q): %v, want %q", row.given, row.store, err, row.err)
		}
	}
}
