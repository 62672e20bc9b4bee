package main

import (
	"maps"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// seriesOf returns a series with these rates, one for each round.
func seriesOf(name, load string, callers int, beside bool, rates ...float64) *series {
	s := &series{job: job{Row: name, Load: load, Callers: callers, Beside: beside}}
	for _, v := range rates {
		s.Rounds = append(s.Rounds, outcome{
			Done: int64(v), Rate: v, P99: 1000 / max(v, 1),
			CPU: map[string]float64{"service": 1e5 / max(v, 1), "mysql": 10},
		})
	}
	return s
}

func TestMedians(t *testing.T) {
	for _, row := range []struct {
		all  []float64
		want spread
	}{
		{[]float64{3, 1, 2}, spread{2, 1, 3}},
		{[]float64{4, 1, 3, 2}, spread{2.5, 1, 4}},
		{[]float64{7}, spread{7, 7, 7}},
	} {
		given := append([]float64(nil), row.all...)
		if got, ok := spreadOf(row.all); !ok || got != row.want {
			t.Errorf("of %v: got %v, want %v", row.all, got, row.want)
		}
		if !reflect.DeepEqual(given, row.all) {
			t.Errorf("the rounds were put in another order: %v", row.all)
		}
	}
	if _, ok := spreadOf(nil); ok {
		t.Error("there is a median of nothing")
	}
}

func TestRatiosAreWithinRounds(t *testing.T) {
	a, b := seriesOf("a", sold, few, false, 200, 20, 2000), seriesOf("b", sold, few, false, 100, 10, 500)
	if got, ok := a.ratio(b, rate, rate); !ok || got != (spread{2, 2, 4}) {
		t.Errorf("got %v, want 2 (2 to 4), whatever the computer did in each round", got)
	}
	if _, ok := a.ratio(nil, rate, rate); ok {
		t.Error("there is a ratio to nothing")
	}
	b.Rounds[0].Rate = 0
	if got, _ := a.ratio(b, rate, rate); got != (spread{3, 2, 4}) {
		t.Errorf("got %v: a round without a rate counts", got)
	}
}

// Figures against atomic/mysql are against the program beside, if it was measured.
func TestFiguresAreAgainstTheProgramBeside(t *testing.T) {
	r := &results{Beside: "0123456789", Rows: []*series{
		seriesOf("merged/mysql", sold, few, false, 900, 900, 900), seriesOf(slow, sold, few, false, 300, 300, 300),
	}}
	first := func() figure { return r.figures()[0] }
	if f := first(); f.missing || f.got.median != 3 || f.reached() || strings.Contains(f.text.en, r.Beside) {
		t.Errorf("without: %+v", f)
	}
	r.Rows = append(r.Rows, seriesOf(slow, sold, few, true, 150, 150, 150))
	if f := first(); f.got.median != 6 || !f.reached() || !strings.Contains(f.text.en, r.Beside) ||
		!strings.Contains(f.text.zh, r.Beside) {
		t.Errorf("beside: %+v", f)
	}
	for _, f := range r.figures()[1:] {
		if strings.HasPrefix(f.text.en, "p99 of") {
			if math.Abs(f.got.median-150./900) > 1e-9 || !f.reached() {
				t.Errorf("p99: %+v", f)
			}
		} else if !f.missing && f.target > 0 {
			t.Errorf("%q was not measured, and is %v", f.text.en, f.got)
		}
	}
}

// The cost of traces is a share of all that a sale takes, in each round; an outcome without a pair counts for nothing.
func TestTheCostOfTraces(t *testing.T) {
	outcomeOf := func(on, off, control float64) outcome {
		return outcome{CPU: map[string]float64{"nginx": 30, "mysql": 70}, Paired: &paired{on, off, control}}
	}
	s := &series{Rounds: []outcome{outcomeOf(104, 100, 0.5), outcomeOf(106, 100, 1.5), outcomeOf(300, 300, 1), {}}}
	s.job = job{Row: traced, Load: sold, Callers: many}
	got := map[string]spread{}
	for _, f := range (&results{Rows: []*series{s}}).figures() {
		if !f.missing {
			got[f.text.en[:11]] = f.got
		}
	}
	want := map[string]spread{"CPU per sal": {1.02, 1, 1.03}, "the control": {1, 0.75, 1.25}}
	if !maps.EqualFunc(got, want, func(a, b spread) bool {
		return math.Abs(a.median-b.median)+math.Abs(a.least-b.least)+math.Abs(a.most-b.most) < 1e-9
	}) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What the issue asks for is all there.
func TestTargets(t *testing.T) {
	var got []float64
	for _, f := range (&results{}).figures() {
		if f.target > 0 {
			got = append(got, f.target)
		}
		if f.text.en == "" || f.text.zh == "" {
			t.Errorf("a figure without words: %+v", f)
		}
	}
	want := []float64{5, 8, 0.5, 0.65, 0.65, 1.2, 5, 20, 0.7, 0.7, 0.7, 1.1, 1.03, 0.8, 0.8, 0.33, 0.33, 5, 1.3}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTables(t *testing.T) {
	r := &results{Rounds: 3, Seconds: 2, Rows: []*series{
		seriesOf("merged/mysql", sold, few, false, 900, 1000, 1100), seriesOf(slow, sold, few, false, 300, 300, 300),
	}}
	r.Rows[0].Rounds[1].Other = map[string]int64{"overloaded": 2}
	r.Rows[0].Rounds[2].Other = map[string]int64{"overloaded": 3}
	for l, lines := range map[language][]string{
		en: {
			"| `merged` MySQL / `atomic` MySQL, sold/s, 30 connections " +
				"| at least 5 | 3.33 | 3.00 – 3.67 | not reached |",
			"| `merged` MySQL / gin ping, 128 connections | at least 0.5 | – | – | not measured |",
			"| p99 of `merged` MySQL / of `atomic` MySQL, 30 connections " +
				"| at most 0.33 | 0.30 | 0.27 – 0.33 | reached |",
			"| `merged/mysql` | sold, 30 | 1000 | 900 – 1100 | | 1.00 | 100 | | 10 | | overloaded 5 |",
		},
		zh: {
			"| `merged` MySQL / `atomic` MySQL，每秒售出，30 连接 | 至少 5 | 3.33 | 3.00 – 3.67 | 未达到 |",
			"| `merged/mysql` | 售出，30 | 1000 | 900 – 1100 | | 1.00 | 100 | | 10 | | overloaded 5 |",
		},
	} {
		text := squeeze(r.render(l))
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("there is no line\n%s\nin\n%s", line, text)
			}
		}
	}
}

// Figures of a computer that others used say so.
func TestTheBusyAreWarned(t *testing.T) {
	r := &results{Rows: []*series{seriesOf(slow, sold, few, false, 1, 1, 1)}}
	const warning = "Other programs were busy"
	if strings.Contains(r.render(en), warning) {
		t.Error("a warning without a reason")
	}
	for i := range r.Rows[0].Rounds {
		r.Rows[0].Rounds[i].Others = 0.7
	}
	if !strings.Contains(r.render(en), warning) || !strings.Contains(r.render(zh), "其他程序占用了 CPU") {
		t.Error("no warning")
	}
}

// squeeze takes away what aligns the cells of tables.
func squeeze(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "售出": 4, "售出，30": 8, "1 – 2": 5} {
		if got := width(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
}

// The pages in docs are made of the figures that are kept beside them, and of nothing else.
func TestPagesAreOfTheKeptRun(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	r, err := load(filepath.Join(docs, kept))
	if err != nil {
		t.Fatal(err)
	}
	if r.Rounds < 1 || len(r.Rows) == 0 {
		t.Fatalf("%s has no figures", kept)
	}
	for name, l := range pages() {
		if got := read(t, filepath.Join(docs, name)); got != r.page(l) {
			t.Errorf("docs/%s is not made of docs/%s: make bench-http ARGS='--from ../docs/%[2]s --write'", name, kept)
		}
	}
}
