package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"unicode/utf8"
)

// render returns what is printed. It is also Markdown.
func (r *results) render() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s.\n", r.Began.UTC().Format("2006-01-02 15:04 MST"), r.Computer)
	fmt.Fprintf(&b, "%s.\n\n", strings.Join(r.Versions, ", "))
	fmt.Fprintf(&b, "Medians of %d rounds of %g s for each lock, taken in turns. Load average meanwhile: %s.\n",
		r.Rounds, r.Seconds, r.span(load))
	if others := r.span(busy); !strings.HasPrefix(others, "-") {
		fmt.Fprintf(&b, "Other programs took of the %d CPUs meanwhile: %s.\n", runtime.NumCPU(), others)
	}
	fmt.Fprintf(&b,
		"A ratio is the median of the ratios within a round. \"best peer\" is the fastest peer on the same server.\n")
	for _, t := range tables() {
		r.renderTable(&b, t)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Missing)) {
		fmt.Fprintf(&b, "\nNot measured: %s. %s.\n", name, strings.TrimSuffix(r.Missing[name], "."))
	}
	r.renderFigures(&b)
	return b.String()
}

// span returns the range and the median of a figure over all measurements.
func (r *results) span(of func(outcome) float64) string {
	var all []float64
	for _, w := range r.Rows {
		for _, o := range w.Rounds {
			if o != nil {
				all = append(all, of(*o))
			}
		}
	}
	mid, ok := median(all)
	if !ok {
		return "not known"
	}
	return fmt.Sprintf("%.2f to %.2f, median %.2f", slices.Min(all), slices.Max(all), mid)
}

func (r *results) renderTable(b *strings.Builder, t table) {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(w *row) bool { return w.Table != t.name })
	if len(rows) == 0 {
		return
	}
	title := t.title
	if strings.Contains(title, "%v") {
		title = fmt.Sprintf(title, fmt.Sprintf("%g ms", r.DelayMS))
	}
	fmt.Fprintf(b, "\n### %s\n\n", title)
	if t.shapes[0].Delayed {
		fmt.Fprintf(b, "A PING takes %s directly and %s through the proxy.\n\n", r.Pings["direct"], r.Pings["delayed"])
	}
	head := []string{"lock", "op/s", "/ best peer", "/ limit", "p50 ms", "p99 ms", "max ms", "Jain", "lost"}
	if t.slices > 1 {
		fmt.Fprintf(b, "Each round is %d measurements of %.2g s, spread over it.\n\n", t.slices,
			r.Seconds/float64(t.slices))
	}
	if len(t.shapes) > 1 {
		head[0] = "keys, lock"
	}
	cells := [][]string{head}
	for _, w := range rows {
		cells = append(cells, r.cells(w, len(t.shapes) > 1))
	}
	align(b, cells)
}

func (r *results) cells(w *row, manyKeys bool) []string {
	name := w.Name
	if w.Side == ours {
		name = "**" + name + "**"
	}
	if manyKeys {
		name = fmt.Sprintf("%d, %s", w.Keys, name)
	}
	show := func(format string, of func(outcome) float64) string {
		if v, ok := w.median(of); ok {
			return fmt.Sprintf(format, v)
		}
		return "-"
	}
	lost := "0"
	if n := w.lost(); n != 0 {
		lost = fmt.Sprint(n)
		if !w.Loses && n > 0 {
			lost += " WRONG"
		}
	}
	jains := show("%.3f", fair)
	if w.Procs*w.Contenders == 1 {
		jains = ""
	}
	cells := []string{
		name, show("%.0f", rate), r.toBestPeer(w), r.toLimit(w), show("%.2f", p50), show("%.2f", p99),
		show("%.1f", most), jains, lost,
	}
	if len(w.Errors) > 0 {
		cells[0] += fmt.Sprintf(" (failed in %d of %d rounds)", len(w.Errors), len(w.Rounds))
	}
	return cells
}

func (r *results) toBestPeer(w *row) string {
	if w.Side == bound {
		return ""
	}
	var best *row
	top := 0.0
	for _, other := range r.Rows {
		if other.Table != w.Table || other.Keys != w.Keys || other.Server != w.Server || other.Side != peer {
			continue
		}
		if v, ok := other.median(rate); ok && v > top {
			best, top = other, v
		}
	}
	if got, ok := w.ratio(best, rate); ok {
		return fmt.Sprintf("%.2f", got)
	}
	return "-"
}

// toLimit returns the ratio to the limit, or "" for a row whose work is another.
func (r *results) toLimit(w *row) string {
	if w.Server == "mysql" || w.Side == bound {
		return ""
	}
	if got, ok := w.ratio(r.find(w.Table, nameLimit, w.Keys), rate); ok {
		return fmt.Sprintf("%.2f", got)
	}
	return ""
}

func (r *results) renderFigures(b *strings.Builder) {
	b.WriteString("\n### Figures to reach\n\n")
	cells := [][]string{{"figure", "target", "measured", "", "against"}}
	for _, f := range r.Figures {
		if f.Missing {
			continue
		}
		target, said := fmt.Sprintf("at least %g", f.Target), "reached"
		if f.AtMost {
			target = fmt.Sprintf("at most %g", f.Target)
		}
		if !f.reached() {
			said = "not reached"
		}
		if f.Target == 0 {
			target, said = "", ""
		}
		cells = append(cells, []string{f.Text, target, fmt.Sprintf("%.2f", f.Got), said, f.Against})
	}
	align(b, cells)
}

// align writes a Markdown table whose columns are also aligned as plain text.
func align(b *strings.Builder, cells [][]string) {
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for n, line := range cells {
		for i, cell := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, width := range widths {
			rule := strings.Repeat("-", width)
			if i > 0 {
				rule = rule[1:] + ":"
			}
			fmt.Fprintf(b, "| %s ", rule)
		}
		b.WriteString("|\n")
	}
}
