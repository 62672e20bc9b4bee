package panels

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestPromQL(t *testing.T) {
	for want, e := range map[string]Expr{
		`sum(m)`:                    sum("m"),
		`max by (a, b) (m)`:         most("m", "a", "b"),
		`sum(rate(m[1m]))`:          rate("m"),
		`count(m{a=~"x|y",b!~"z"})`: count("m").with("a", "x|y").without("b", "z"),
		`histogram_quantile(0.99, sum by (le, a) (rate(h_bucket[1m])))`: quantile(.99, "h", "a"),
		`(sum(m) or on () 0 * count(stock_ready)) / sum(n)`:             sum("m").orZero().dividedBy(sum("n")),

		`(sum by (a) (m) or on () label_replace(0 * count(stock_ready), "a", "-", "", ""))`: sum("m", "a").orZero(),
	} {
		if got := e.PromQL("1m"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// Every pattern of a condition is a regular expression.
func TestConditions(t *testing.T) {
	for _, table := range Tables() {
		for _, c := range table.Columns {
			for _, w := range c.Expr.where {
				regexp.MustCompile(w.pattern)
			}
			if by := strings.Join(c.Expr.by, " "); by != table.By {
				t.Errorf("table %s, column %s: it is by %q, the table by %q", table.Key, c.Key, by, table.By)
			}
		}
	}
}

// scrapes returns what two scrapes ten seconds apart found.
func scrapes(t *testing.T, before, now string) Pair {
	t.Helper()
	at := time.Unix(1000, 0)
	first, err := ReadScrape(strings.NewReader(before), "i", at)
	if err != nil {
		t.Fatal(err)
	}
	second, err := ReadScrape(strings.NewReader(now), "i", at.Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return Pair{Instance: "i", Before: first, Now: second}
}

const histogram = `# TYPE h histogram
h_bucket{a="x",le="0.1"} 10
h_bucket{a="x",le="0.2"} 30
h_bucket{a="x",le="+Inf"} 40
h_sum{a="x"} 9
h_count{a="x"} 40
`

func TestEval(t *testing.T) {
	const ready = "stock_ready 1\n"
	const two, long = "m{a=\"x\"} 2\nm{a=\"y\"} 3", "m{a=\"x\"} 2\nm{a=\"xy\"} 3"
	for _, row := range []struct {
		name, before, now string
		expr              Expr
		want              string
	}{
		{"a gauge", "", two, sum("m"), "[{map[] 5}]"},
		{"the largest", "", two, most("m"), "[{map[] 3}]"},
		{"the smallest", "", two, least("m"), "[{map[] 2}]"},
		{"how many", "", two, count("m"), "[{map[] 2}]"},
		{"the smallest of negative ones", "", `m{a="x"} -2` + "\n" + `m{a="y"} -3`, most("m"), "[{map[] -2}]"},
		{"by a label", "", two, sum("m", "a"), "[{map[a:x] 2} {map[a:y] 3}]"},
		{"a condition is for the whole value", "", long, sum("m").with("a", "x"), "[{map[] 2}]"},
		{"not", "", two, sum("m").without("a", "x"), "[{map[] 3}]"},
		{"a rate", "m 100", "m 120", rate("m"), "[{map[] 2}]"},
		{"a rate after a restart", "m 100", "m 20", rate("m"), "[{map[] 2}]"},
		{"the first event", ready, ready + "m 20", rate("m"), "[{map[] 2}]"},
		{"no counter yet", ready, ready, rate("m", "a").orZero(), "[{map[a:-] 0}]"},
		{"no instance answers", "", "", rate("m", "a").orZero(), "[]"},
		{"a share", "m 0\nn 0", "m 10\nn 40", rate("m").dividedBy(rate("n")), "[{map[] 0.25}]"},
		{"the job is known", "", "m 1", sum("m", "instance").with("job", job), "[{map[instance:i] 1}]"},
		{"it answered", "", "", answersUp(), "[{map[instance:i] 1}]"},
		{"a quantile within a bucket", "", histogram, quantile(.5, "h", "a"), "[{map[a:x] 0.15000000000000002}]"},
		{"a quantile in the first bucket", "", histogram, quantile(.125, "h"), "[{map[] 0.05}]"},
		{"a quantile above all bounds", "", histogram, quantile(.99, "h"), "[{map[] 0.2}]"},
		{"nothing was counted", histogram, histogram, quantile(.5, "h"), "[{map[] NaN}]"},
		{"a histogram is counted", "", histogram, rate("h_count"), "[{map[] 4}]"},
	} {
		if got := fmt.Sprint(row.expr.Eval([]Pair{scrapes(t, row.before+"\n", row.now+"\n")})); got != row.want {
			t.Errorf("%s: %s is %s, want %s", row.name, row.expr.PromQL("10s"), got, row.want)
		}
	}
	alone := scrapes(t, "", "m 20\n")
	alone.Before = Scrape{}
	if got := rate("m").Eval([]Pair{alone}); len(got) != 0 {
		t.Errorf("the growth after a single scrape is %v", got)
	}
}

// Growth is measured over the window, with the youngest scrape that is old enough; an instance that does not answer
// has only the series up.
func TestWindow(t *testing.T) {
	var fails atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		fmt.Fprintln(w, "stock_ready 1")
	}))
	defer s.Close()
	addr := strings.TrimPrefix(s.URL, "http://")
	i := Instances{Addrs: []string{addr}}
	if pairs := i.Scrape(t.Context()); pairs[0].Err != nil || !pairs[0].Before.At.IsZero() {
		t.Fatalf("the first scrape: %+v", pairs)
	}
	now := time.Now()
	for _, ago := range []time.Duration{40, 20, 16, 14, 1} { // instead of waiting
		i.past[addr] = append(i.past[addr], Scrape{At: now.Add(-ago * time.Second)})
	}
	i.past[addr] = i.past[addr][1:]
	pairs := i.Scrape(t.Context())
	if got := now.Sub(pairs[0].Before.At); got != 16*time.Second {
		t.Errorf("growth is measured since %v ago, want 16s", got)
	}
	fails.Store(true)
	pairs = i.Scrape(t.Context())
	if pairs[0].Err == nil || fmt.Sprint(answersUp().Eval(pairs)) != "[{map[instance:"+addr+"] 0}]" {
		t.Errorf("an instance without /metrics: %v, %v", pairs[0].Err, answersUp().Eval(pairs))
	}
	if got := ready().Eval(pairs); len(got) != 0 {
		t.Errorf("it is ready: %v", got)
	}
}

func TestAlarms(t *testing.T) {
	for _, row := range []struct {
		alarm Alarm
		value float64
		want  bool
	}{
		{AboveZero, 0, false},
		{AboveZero, .1, true},
		{BelowOne, 1, false},
		{BelowOne, 0, true},
		{Never, 0, false},
		{AboveZero, math.NaN(), false},
		{BelowOne, math.NaN(), false},
	} {
		if got := row.alarm.Rings(row.value); got != row.want {
			t.Errorf("%q of %v: %v", row.alarm, row.value, got)
		}
	}
}
