package report

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// A Comparison compares two sides, each with one or more runs of the same load.
type Comparison struct {
	A, B         string // names of the sides
	RunsA, RunsB []*loadtest.Result
	Metrics      []Metric
	// differences between the sides other than the strategy, which also affect the figures
	Differing []words.Text
	Method    words.Text
}

// Compare compares two sides. Neither may be empty.
func Compare(nameA string, a []*loadtest.Result, nameB string, b []*loadtest.Result) *Comparison {
	c := &Comparison{A: nameA, B: nameB, RunsA: a, RunsB: b, Metrics: Differences(a, b)}
	c.Method = phrases.Say("compare.medians")
	if len(a) < 2 || len(b) < 2 {
		c.Method = phrases.Say("compare.single")
	}
	p, q := &a[0].Plan, &b[0].Plan
	for _, x := range []struct {
		what string
		a, b words.Text
	}{
		{"load", load(a[0]), load(b[0])},
		{"store", words.Same(p.Store), words.Same(q.Store)},
		{"target", words.Same(a[0].Target), words.Same(b[0].Target)},
	} {
		if x.a != x.b {
			c.Differing = append(c.Differing,
				phrases.Say("compare.differs", "what", phrases.Say("label."+x.what), "a", x.a, "b", x.b))
		}
	}
	for _, side := range [][]*loadtest.Result{a, b} {
		for _, r := range side[1:] {
			if r.Plan.Strategy != side[0].Plan.Strategy || load(r) != load(side[0]) {
				c.Differing = append(c.Differing, phrases.Say("compare.mixed", "one", side[0].Plan.Strategy,
					"load", load(side[0]), "other", r.Plan.Strategy, "other_load", load(r)))
			}
		}
	}
	return c
}

// row returns the metric as text: the two sides, the change, and the answer.
func (m *Metric) row(v voice) [5]string {
	a, b := median(m.A), median(m.B)
	change := "–"
	switch {
	case a == b:
		change = "0"
	case a != 0:
		change = fmt.Sprintf("%+.1f %%", 100*(b-a)/math.Abs(a))
	}
	return [5]string{v.in(m.Name), m.side(m.A), m.side(m.B), change, v.in(m.Answer)}
}

func (m *Metric) side(list []float64) string {
	text := func(x float64) string {
		switch m.Unit {
		case "ms":
			return millis(x)
		case "":
			return fmt.Sprintf("%.2f", x)
		case "%":
			return fmt.Sprintf("%.1f %%", x)
		}
		return thousands(int64(math.Round(x)))
	}
	if len(list) == 1 {
		return text(list[0])
	}
	return fmt.Sprintf("%s [%s, %s]", text(median(list)), text(list[0]), text(list[len(list)-1]))
}

// WriteText writes c for a terminal or a file.
func (c *Comparison) WriteText(w io.Writer, lang string) error {
	v := voice(lang)
	rows := [][5]string{
		{
			"",
			v.say("compare.a", "side", c.A, "runs", v.count("run", int64(len(c.RunsA)))),
			v.say("compare.b", "side", c.B, "runs", v.count("run", int64(len(c.RunsB)))),
			v.say("compare.b-to-a"),
			"",
		},
	}
	rows = append(rows, c.rows(v)...)
	var widths [5]int
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], words.Columns(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-words.Columns(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	b.WriteString("\n" + v.in(c.Method) + "\n")
	for _, d := range c.Differing {
		b.WriteString(v.say("compare.not-same", "what", d) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// rows returns the metrics as text.
func (c *Comparison) rows(v voice) [][5]string {
	var rows [][5]string
	for i := range c.Metrics {
		rows = append(rows, c.Metrics[i].row(v))
	}
	return rows
}

// A compareView is the data of the template of runs side by side.
type compareView struct {
	Rows        []compareRow
	Trips, Woke bool // whether any run has them
	Chart       template.HTML
}

type compareRow struct {
	Strategy, Store, Word, Class                                                   string
	Accepted, Busy, Oversold, Lost, Sold, P50, P99, Rate, Jain, Wait, Trips, Woken string
	SoldBar, P99Bar                                                                float64 // percent of the largest
	Oversell, Hurt                                                                 bool
}

func newCompareView(say voice, runs []*loadtest.Result) *compareView {
	v := new(compareView)
	var fastest, slowest float64
	for _, r := range runs {
		fastest, slowest = max(fastest, r.Latency.Sold), max(slowest, r.Latency.Accepted().P99)
	}
	for _, r := range runs {
		j, f := &r.Verdict, loadtest.FairnessOf(r)
		row := compareRow{
			Strategy: r.Plan.Strategy,
			Store:    r.Plan.Store,
			Accepted: thousands(int64(j.Accepted)),
			Busy:     fmt.Sprintf("%.0f %%", 100*float64(j.Busy)/float64(max(j.Sent, 1))),
			Oversold: thousands(j.OversoldUnits),
			Lost:     "?",
			Rate:     fmt.Sprintf("%.0f", r.Latency.Rate),
			Sold:     "–",
			P50:      "–",
			P99:      "–",
			Jain:     "–",
			Wait:     "–",
			Trips:    "–",
			Woken:    "–",
			Oversell: j.OversoldUnits > 0,
			Hurt:     j.Known && j.LostUnits != 0,
		}
		if q := r.Latency.Accepted(); q.Count > 0 {
			row.Sold, row.P50, row.P99 = fmt.Sprintf("%.0f", r.Latency.Sold), millis(q.P50), millis(q.P99)
			row.SoldBar, row.P99Bar = 100*r.Latency.Sold/max(fastest, 1e-9), 100*q.P99/max(slowest, 1e-9)
		}
		row.Word, row.Class, _ = say.judged(r)
		if row.Class == "raced" {
			row.Word = say.say("judged.expected")
		}
		if j.Known {
			row.Lost = thousands(j.LostUnits)
		}
		if f.Jain > 0 {
			row.Jain = fmt.Sprintf("%.2f", f.Jain)
		}
		if f.LongestWaitMS > 0 {
			row.Wait = millis(f.LongestWaitMS)
		}
		if n := r.Strategy.RoundTrips; n > 0 {
			row.Trips, v.Trips = strconv.Itoa(n), true
		}
		if n := r.WakeUps(); n > 0 {
			row.Woken, v.Woke = fmt.Sprintf("%.1f", n), true
		}
		v.Rows = append(v.Rows, row)
	}
	const width = 480
	v.Chart = template.HTML(compareChart(say, runs, marked, 11).toSVG(width, compareHeight(len(runs)), "spans",
		say.say("caption.compare"), nil))
	return v
}

// significant is the probability below which a difference is not attributed to noise.
const significant = 0.05

// A Metric is one figure of two sides, each with one or more runs.
type Metric struct {
	Name words.Text `json:"name"`
	Unit string     `json:"unit"`
	A    []float64  `json:"a"` // sorted
	B    []float64  `json:"b"`
	// the probability that chance makes such a difference or a larger one (Mann-Whitney, exact, two-sided); 1 if it is
	// not known
	P      float64    `json:"p"`
	Answer words.Text `json:"answer"`
}

// Differences compares two sides by the figures that matter. A difference exceeds the noise if a Mann-Whitney U test,
// which assumes no distribution, gives it a probability below 5 %. That takes at least four runs on each side, or three
// and five. With fewer, the answer is only a hint: whether the ranges of the two sides overlap. For single runs, the
// noise is unknown.
func Differences(a, b []*loadtest.Result) []Metric {
	list := []Metric{
		{Name: phrases.Say("metric.sold"), Unit: "units/s"},
		{Name: phrases.Say("metric.p50"), Unit: "ms"},
		{Name: phrases.Say("metric.p99"), Unit: "ms"},
		{Name: phrases.Say("metric.rate"), Unit: "requests/s"},
		{Name: phrases.Say("metric.busy"), Unit: "%"},
		{Name: phrases.Say("metric.oversold"), Unit: "units"},
		{Name: phrases.Say("metric.lost"), Unit: "units"},
		{Name: phrases.Say("metric.fairness")},
		{Name: phrases.Say("metric.wait"), Unit: "ms"},
	}
	for _, side := range []struct {
		runs []*loadtest.Result
		to   func(*Metric) *[]float64
	}{{a, func(m *Metric) *[]float64 { return &m.A }}, {b, func(m *Metric) *[]float64 { return &m.B }}} {
		for _, r := range side.runs {
			v, f, sales := &r.Verdict, loadtest.FairnessOf(r), r.Latency.Accepted()
			for i, x := range []float64{
				r.Latency.Sold, sales.P50, sales.P99, r.Latency.Rate, 100 * float64(v.Busy) / float64(max(v.Sent, 1)),
				float64(v.OversoldUnits), float64(v.LostUnits), f.Jain, f.LongestWaitMS,
			} {
				to := side.to(&list[i])
				*to = append(*to, x)
			}
		}
	}
	for i := range list {
		m := &list[i]
		slices.Sort(m.A)
		slices.Sort(m.B)
		m.judge()
	}
	return list
}

func (m *Metric) judge() {
	m.P = mannWhitney(m.A, m.B)
	apart := m.A[len(m.A)-1] < m.B[0] || m.B[len(m.B)-1] < m.A[0]
	switch {
	case median(m.A) == median(m.B) && m.A[0] == m.B[0] && m.A[len(m.A)-1] == m.B[len(m.B)-1]:
		m.Answer = phrases.Say("answer.none")
	case len(m.A) < 2 || len(m.B) < 2:
		m.Answer = phrases.Say("answer.single")
	case m.P < significant:
		m.Answer = phrases.Say("answer.exceeds")
	case 2/ways(len(m.A)+len(m.B), len(m.A)) >= significant && apart:
		m.Answer = phrases.Say("answer.few")
	default:
		m.Answer = phrases.Say("answer.within")
	}
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ways returns the binomial coefficient of n over k.
func ways(n, k int) float64 {
	w := 1.0
	for i := range k {
		w = w * float64(n-i) / float64(i+1)
	}
	return math.Round(w)
}

// mannWhitney returns the probability of a U at least as far from the middle as that of a and b (Mann and Whitney,
// 1947). Up to 24 runs in all it is exact, by counting all distributions of the ranks, ties included. Beyond that it is
// the normal approximation with the correction for ties.
func mannWhitney(a, b []float64) float64 {
	n, k := len(a)+len(b), len(a)
	if k == 0 || k == n {
		return 1
	}
	all := slices.Sorted(slices.Values(append(slices.Clone(a), b...)))
	// Twice the mean rank of each, so that ties stay whole numbers.
	rank := make(map[float64]int)
	ties := 0.0
	for i := 0; i < n; {
		j := i
		for j < n && all[j] == all[i] {
			j++
		}
		rank[all[i]] = i + 1 + j
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	sum := 0
	for _, x := range a {
		sum += rank[x]
	}
	middle := k * (n + 1)
	far := abs(sum - middle)
	if n > 24 {
		nn := float64(n)
		variance := float64(k) * float64(n-k) / 12 * (nn + 1 - ties/(nn*(nn-1))) * 4 // of twice the sum
		if variance == 0 {
			return 1
		}
		return math.Erfc(max(float64(far)-1, 0) / math.Sqrt(variance) / math.Sqrt2)
	}
	// count[c][s]: ways to choose c of the ranks so far with sum s.
	count := make([]map[int]float64, k+1)
	for c := range count {
		count[c] = make(map[int]float64)
	}
	count[0][0] = 1
	for _, x := range all {
		for c := k; c > 0; c-- {
			for s, w := range count[c-1] {
				count[c][s+rank[x]] += w
			}
		}
	}
	extreme := 0.0
	for s, w := range count[k] {
		if abs(s-middle) >= far {
			extreme += w
		}
	}
	return extreme / ways(n, k)
}

func abs(n int) int { return max(n, -n) }
