package loadtest_test

import (
	"strconv"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

func TestWhatIsNoThreshold(t *testing.T) {
	for _, text := range []string{
		"", "oversold", "oversell==0", "==0", "oversold=0", "oversold=!0", "oversold==", "oversold==NaN",
		"oversold==Inf", "oversold>=-Inf", "oversold<1e999", "oversold<5%", "p99<50", "p99<-1s", "p99<5%", "busy<5ms",
		"busy<%",
		"linearizable==1", "busy<<5",
	} {
		got, err := loadtest.ParseThreshold(text)
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	// What could be meant is listed.
	if _, err := loadtest.ParseThreshold("oversell==0"); err == nil || !strings.Contains(err.Error(), "lost_updates") {
		t.Error(err)
	}
}

func TestThresholds(t *testing.T) {
	lossy, right, gap := newTape(10), newTape(100), newTape(100)
	for range 12 {
		lossy.sell(3, 10, 1)
	}
	for range 95 {
		right.next(1)
	}
	for range 5 {
		right.answer(loadtest.Busy, 1)
	}
	for range 3 {
		gap.sell(3, 100, 1)
	}
	gap.account.Complete, gap.account.After = false, nil
	// A foreign API that lists no orders and does not report what was read.
	blind := newTape(100)
	for range 3 {
		blind.next(1)
	}
	for i := range blind.records {
		blind.records[i].Receipt = &loadtest.Receipt{Blind: true, Epoch: 2}
	}
	blind.account.Orders, blind.account.Complete = nil, false
	blind.account.Before.Mapped, blind.account.Before.Unlisted = true, true
	results := map[string]*loadtest.Result{
		"lossy": result("lossy", loadtest.Cluster, lossy),
		"right": result("right", loadtest.Cluster, right),
		"gap":   result("gap", loadtest.Cluster, gap),
		"empty": {},
		"blind": result("blind", loadtest.Cluster, blind),
	}
	for _, row := range []struct {
		run, text, actual string
		met               bool
	}{
		{"right", "oversold==0", "0", true},
		{"right", " oversold == 0 ", "0", true},
		{"lossy", "oversold==0", "2", false},
		{"lossy", "oversold!=0", "2", true},
		{"lossy", "lost_updates == 0", "11", false},
		{"lossy", "lost_updates>=11", "11", true},
		{"lossy", "collisions>66", "66", false},
		{"right", "busy<5%", "5.00%", false},
		{"right", "busy<=5%", "5.00%", true},
		{"right", "busy<6", "5", true},
		{"right", "accepted>=95%", "95.00%", true},
		{"right", "p99<50ms", "16.3ms", true},
		{"right", "p99<1ms", "16.3ms", false},
		{"right", "max<=1s", "16.3ms", true},
		{"right", "rate>=1/s", "/s", true},
		{"right", "rate>=100000", "/s", false},
		{"right", "linearizable==true", "true", true},
		{"right", "linearizable==false", "true", false},
		{"lossy", "linearizable==true", "false", false},
		{"lossy", "linearizable==false", "false", true},
		{"empty", "linearizable==true", "not known", false},
		{"empty", "linearizable==false", "not known", false},
		{"gap", "oversold==0", "at least 0, the evidence is incomplete", false},
		{"gap", "collisions==0", "at least 3, the evidence is incomplete", false},
		{"gap", "collisions<10", "at least 3", false},
		{"gap", "collisions>2", "at least 3", true},
		{"gap", "collisions>=3", "at least 3", true},
		{"gap", "collisions!=2", "at least 3", true},
		{"gap", "collisions!=4", "at least 3", false},
		{"gap", "lost_updates==0", "not known", false},
		{"blind", "oversold==0", "0", true},
		{"blind", "lost_updates==0", "0", true},
		{"blind", "collisions==0", "not known", false},
		{"empty", "p99<1h", "not known", false},
		{"empty", "busy<5%", "not known", false},
		{"empty", "rate>=0", "not known", false},
		{"empty", "oversold==0", "at least 0", false},
	} {
		threshold, err := loadtest.ParseThreshold(row.text)
		if err != nil {
			t.Errorf("%q: %v", row.text, err)
			continue
		}
		got := threshold.Check(results[row.run])
		if got.Met != row.met || !strings.Contains(got.Actual.EN, row.actual) || got.Text != row.text {
			t.Errorf("%s: %q: met %v, actual %q; want %v, %q", row.run, row.text, got.Met, got.Actual, row.met,
				row.actual)
		}
	}
}

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

// A threshold that is parsed can be checked.
func FuzzParseThreshold(f *testing.F) {
	for _, text := range []string{"oversold==0", "busy < 5%", "p99<50ms", "rate>=1000/s", "linearizable==true", "="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if threshold, err := loadtest.ParseThreshold(text); err == nil {
			threshold.Check(&loadtest.Result{})
		}
	})
}
