package report

import (
	"math"
	"slices"

	"example.com/stock/loadtest"
)

// significant is the chance below which a difference is not put down to noise.
const significant = 0.05

// A Metric is one figure of two sides, each of one or more runs of the same.
type Metric struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit"`
	A      []float64 `json:"a"` // sorted
	B      []float64 `json:"b"`
	P      float64   `json:"p"` // that such a difference or a larger one comes by chance (Mann-Whitney, exact, two-sided); 1 if it cannot be told
	Answer string    `json:"answer"`
}

// Differences compares two sides by the figures that matter. A difference exceeds the noise if a Mann-Whitney U test, which asks nothing of how the figures
// are distributed, gives it a chance below 5 %. That takes four runs on each side at least, or three and five; with fewer it says whether the ranges
// of the two sides overlap, which is a hint and no more. Of single runs the noise is not known.
func Differences(a, b []*loadtest.Result) []Metric {
	list := []Metric{
		{Name: "sold", Unit: "units/s"},
		{Name: "p50 of sales", Unit: "ms"},
		{Name: "p99 of sales", Unit: "ms"},
		{Name: "throughput", Unit: "requests/s"},
		{Name: "busy", Unit: "%"},
		{Name: "oversold", Unit: "units"},
		{Name: "lost updates", Unit: "units"},
		{Name: "fairness (Jain)"},
		{Name: "longest wait", Unit: "ms"},
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
		m.Answer = "no difference"
	case len(m.A) < 2 || len(m.B) < 2:
		m.Answer = "noise is not known: give several runs of each"
	case m.P < significant:
		m.Answer = "exceeds the noise"
	case 2/ways(len(m.A)+len(m.B), len(m.A)) >= significant && apart:
		m.Answer = "ranges do not overlap, but the runs are too few to rule out chance"
	default:
		m.Answer = "within the noise"
	}
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ways is n over k.
func ways(n, k int) float64 {
	w := 1.0
	for i := range k {
		w = w * float64(n-i) / float64(i+1)
	}
	return math.Round(w)
}

// mannWhitney is the chance of a U as far from the middle as that of a and b or farther (Mann and Whitney, 1947). Up to 24 runs in all it is exact, by
// counting all ways to deal the ranks, ties included; beyond that by the normal approximation with the correction for ties.
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
