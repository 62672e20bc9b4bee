package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"example.com/stock/loadtest"
)

// A Comparison is two sides, each of one or more runs of the same.
type Comparison struct {
	A, B         string // what the sides are called
	RunsA, RunsB []*loadtest.Result
	Metrics      []Metric
	Differing    []string // what was not the same on both sides besides the strategy: their figures differ for that reason, too
	Method       string
}

// Compare compares two sides, neither of them empty.
func Compare(nameA string, a []*loadtest.Result, nameB string, b []*loadtest.Result) *Comparison {
	c := &Comparison{A: nameA, B: nameB, RunsA: a, RunsB: b, Metrics: Differences(a, b)}
	c.Method = "Medians, with the lowest and the highest in brackets. A difference exceeds the noise if a Mann-Whitney U test (exact, two-sided) gives it a chance below 5 %; that takes four runs of each side."
	if len(a) < 2 || len(b) < 2 {
		c.Method = "Single runs: how much of a difference is noise is not known. Give several runs of each side, four or more."
	}
	p, q := &a[0].Plan, &b[0].Plan
	for _, x := range []struct{ what, a, b string }{
		{"load", load(a[0]), load(b[0])}, {"store", p.Store, q.Store}, {"target", a[0].Target, b[0].Target},
	} {
		if x.a != x.b {
			c.Differing = append(c.Differing, fmt.Sprintf("%s: %s, and %s", x.what, x.a, x.b))
		}
	}
	for _, side := range [][]*loadtest.Result{a, b} {
		for _, r := range side[1:] {
			if r.Plan.Strategy != side[0].Plan.Strategy || load(r) != load(side[0]) {
				c.Differing = append(c.Differing, fmt.Sprintf("one side mixes %s (%s) with %s (%s)", side[0].Plan.Strategy, load(side[0]), r.Plan.Strategy, load(r)))
			}
		}
	}
	return c
}

// Row is the metric as text: the two sides, the change, and the answer.
func (m *Metric) Row() [5]string {
	a, b := median(m.A), median(m.B)
	change := "–"
	switch {
	case a == b:
		change = "0"
	case a != 0:
		change = fmt.Sprintf("%+.1f %%", 100*(b-a)/math.Abs(a))
	}
	return [5]string{m.Name, m.side(m.A), m.side(m.B), change, m.Answer}
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
func (c *Comparison) WriteText(w io.Writer) error {
	rows := [][5]string{{"", fmt.Sprintf("A: %s (%s)", c.A, count(len(c.RunsA), "run")), fmt.Sprintf("B: %s (%s)", c.B, count(len(c.RunsB), "run")), "B to A", ""}}
	rows = append(rows, c.Rows()...)
	var widths [5]int
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	b.WriteString("\n" + c.Method + "\n")
	for _, d := range c.Differing {
		b.WriteString("Not the same: " + d + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Rows are the metrics as text.
func (c *Comparison) Rows() [][5]string {
	var rows [][5]string
	for i := range c.Metrics {
		rows = append(rows, c.Metrics[i].Row())
	}
	return rows
}
