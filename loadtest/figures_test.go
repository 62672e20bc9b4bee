package loadtest_test

import (
	"testing"

	"example.com/stock/loadtest"
)

// Milliseconds have three digits on either side of each limit.
func TestMillis(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "0.00ms", 9.99: "9.99ms", 9.996: "10.0ms", 99.9: "99.9ms", 99.96: "100ms", 999.4: "999ms", 999.6: "1.00s",
		9000: "9.00s", 9994.5: "9.99s", 9995.5: "10.0s", 90000: "90.0s", -9.99: "-9.99ms", -99.96: "-100ms",
	} {
		if got := loadtest.Millis(ms); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}

// A decision is shown as it is, is met by what is given as it, and is unknown where nothing was decided.
func TestADecisionIsShown(t *testing.T) {
	for _, row := range []struct {
		result string
		given  string
		shown  string
		met    bool
	}{
		{loadtest.InOrder, "true", "true", true},
		{loadtest.InOrder, "false", "true", false},
		{loadtest.Illegal, "true", "false", false},
		{loadtest.Illegal, "false", "false", true},
		{"", "true", "", false},
		{"", "false", "", false},
	} {
		threshold, err := loadtest.ParseThreshold("linearizable == " + row.given)
		if err != nil {
			t.Fatal(err)
		}
		if got := threshold.String(); got != "linearizable=="+row.given {
			t.Errorf("%q", got)
		}
		r := &loadtest.Result{}
		r.Verdict.Linear.Result = row.result
		e := threshold.Check(r)
		unknown := row.shown == "" && e.Actual.EN != "true" && e.Actual.EN != "false"
		if e.Actual.EN != row.shown && !unknown || e.Met != row.met {
			t.Errorf("%q, of %s: %q, met %t", row.result, row.given, e.Actual.EN, e.Met)
		}
	}
}
