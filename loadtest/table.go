package loadtest

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A column of the table of runs. Its head has two lines.
type column struct {
	head [2]string
	text bool               // left-aligned
	drop int                // left out for want of room: the larger the sooner; 0: never
	need func(*Result) bool // left out unless one of the runs has it; nil: always there
	cell func(*Result) (string, tone)
}

func number[N int | int64](get func(*Verdict) N, nonzero tone) func(*Result) (string, tone) {
	return func(r *Result) (string, tone) {
		n := get(&r.Verdict)
		if n == 0 {
			return "0", plain
		}
		return strconv.FormatInt(int64(n), 10), nonzero
	}
}

// known is cell, or "?" where the final stock is not known.
func known(cell func(*Result) (string, tone)) func(*Result) (string, tone) {
	return func(r *Result) (string, tone) {
		if !r.Verdict.Known {
			return "?", odd
		}
		return cell(r)
	}
}

func columns() []column {
	return []column{
		{head: [2]string{"", "strategy"}, text: true, cell: func(r *Result) (string, tone) { return r.Plan.Strategy, plain }},
		{head: [2]string{"", "store"}, text: true, drop: 1, cell: func(r *Result) (string, tone) { return r.Plan.Store, plain }},
		{head: [2]string{"", "sent"}, cell: number(func(v *Verdict) int { return v.Sent }, plain)},
		{head: [2]string{"", "accepted"}, cell: number(func(v *Verdict) int { return v.Accepted }, plain)},
		{head: [2]string{"", "busy"}, cell: number(func(v *Verdict) int { return v.Busy }, plain)},
		{head: [2]string{"sold", "out"}, cell: number(func(v *Verdict) int { return v.SoldOut }, plain)},
		{head: [2]string{"", "failed"}, cell: func(r *Result) (string, tone) { return failures(&r.Verdict) }},
		{head: [2]string{"", "remaining"}, cell: known(number(func(v *Verdict) int64 { return v.RemainingUnits }, plain))},
		{head: [2]string{"", "oversold"}, cell: number(func(v *Verdict) int64 { return v.OversoldUnits }, bad)},
		{head: [2]string{"lost", "updates"}, cell: known(number(func(v *Verdict) int64 { return v.LostUnits }, bad))},
		{head: [2]string{"sold", "/s"}, cell: sold(func(r *Result) string { return fmt.Sprintf("%.0f", r.Latency.Sold) })},
		{head: [2]string{"sold", "p50"}, drop: 3, cell: sold(func(r *Result) string { return millis(r.Latency.Accepted().P50) })},
		{head: [2]string{"sold", "p99"}, drop: 2, cell: sold(func(r *Result) string { return millis(r.Latency.Accepted().P99) })},
		{head: [2]string{"", "req/s"}, drop: 4, cell: func(r *Result) (string, tone) { return fmt.Sprintf("%.0f", r.Latency.Rate), plain }},
		{
			head: [2]string{"wakeups", "/sale"}, drop: 1, need: func(r *Result) bool { return r.WakeUps() > 0 },
			cell: func(r *Result) (string, tone) { return fmt.Sprintf("%.1f", r.WakeUps()), plain },
		},
		{
			head: [2]string{"round", "trips"}, drop: 6, need: func(r *Result) bool { return r.Strategy.RoundTrips > 0 },
			cell: func(r *Result) (string, tone) { return roundTrips(r), plain },
		},
		{head: [2]string{"", "fair"}, drop: 4, cell: func(r *Result) (string, tone) { return evenness(r), plain }},
		{head: [2]string{"longest", "wait"}, drop: 5, cell: func(r *Result) (string, tone) { return longestWait(r), plain }},
		{head: [2]string{"", "verdict"}, text: true, cell: func(r *Result) (string, tone) { return r.Verdict.word() }},
		{head: [2]string{"as", "promised"}, text: true, cell: func(r *Result) (string, tone) { return r.Verdict.promised() }},
	}
}

// sold is cell, or a dash where nothing was sold.
func sold(cell func(*Result) string) func(*Result) (string, tone) {
	return func(r *Result) (string, tone) {
		if r.Latency.Accepted().Count == 0 {
			return "–", plain
		}
		return cell(r), plain
	}
}

// WakeUps is how often the lock's server woke a waiter for each sale, as far as the sold ones tell: up to 1 if it wakes the next in line,
// up to the number of waiters if it wakes the herd. It is 0 if nobody was woken, or the target does not tell.
func (r *Result) WakeUps() float64 {
	var woken, sold int
	for _, record := range r.Records {
		if record.Receipt != nil {
			woken += record.Wakeups
			sold++
		}
	}
	return float64(woken) / float64(max(sold, 1))
}

// roundTrips are those of an uncontended acquire and release, as the service tells them. They do not depend on the run.
func roundTrips(r *Result) string {
	if r.Strategy.RoundTrips == 0 {
		return "–"
	}
	return strconv.Itoa(r.Strategy.RoundTrips)
}

// failures is the number of failed requests, "+" those with an unknown outcome, if any.
func failures(v *Verdict) (string, tone) {
	text, t := strconv.Itoa(v.Failed), plain
	if v.Unknown > 0 {
		text += "+" + strconv.Itoa(v.Unknown)
	}
	if v.Failed+v.Unknown > 0 {
		t = odd
	}
	return text, t
}

// WriteTable writes a table with a row for each run, and below it a sentence for each that is not simply right.
// Where the width is short, columns move together and the less important ones are left out.
func WriteTable(w io.Writer, results []*Result, style Style) error {
	cols := slices.DeleteFunc(columns(), func(c column) bool { return c.need != nil && !slices.ContainsFunc(results, c.need) })
	widths := make([]int, len(cols))
	for i, col := range cols {
		widths[i] = max(len(col.head[0]), len(col.head[1]))
		for _, r := range results {
			text, _ := col.cell(r)
			widths[i] = max(widths[i], utf8.RuneCountInString(text))
		}
	}
	gap := 2
	total := func() int {
		sum := (len(cols) - 1) * gap
		for _, w := range widths {
			sum += w
		}
		return sum
	}
	if total() > style.width() {
		gap = 1
	}
	for total() > style.width() {
		most := 0
		for i := range cols {
			if cols[i].drop > cols[most].drop {
				most = i
			}
		}
		if cols[most].drop == 0 {
			break
		}
		cols, widths = slices.Delete(cols, most, most+1), slices.Delete(widths, most, most+1)
	}

	var b strings.Builder
	row := func(cell func(column) (string, tone)) {
		var line strings.Builder
		for i, col := range cols {
			if i > 0 {
				line.WriteString(strings.Repeat(" ", gap))
			}
			text, t := cell(col)
			line.WriteString(style.pad(t, text, widths[i], !col.text))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	row(func(c column) (string, tone) { return c.head[0], faint })
	row(func(c column) (string, tone) { return c.head[1], faint })
	for _, r := range results {
		row(func(c column) (string, tone) { return c.cell(r) })
	}
	writeNotes(&b, results, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNotes writes why, for each run where the row does not say it all.
func writeNotes(b *strings.Builder, results []*Result, style Style) {
	if slices.ContainsFunc(results, func(r *Result) bool { return r.Verdict.Unknown > 0 }) {
		b.WriteString("\nfailed a+b: b requests have an unknown outcome, and no order in the store as far as is known.\n")
	}
	first := true
	for _, r := range results {
		v := &r.Verdict
		if v.Finding == Holds && v.Kept && !v.Luck && !r.Interrupted {
			continue
		}
		if first {
			b.WriteByte('\n')
			first = false
		}
		text := v.Sentence
		if r.Interrupted {
			text = "Interrupted. " + text
		}
		b.WriteString(style.wrap(r.Plan.Strategy+on(r.Plan.Store)+": "+text, 2) + "\n")
		if v.Kept {
			continue
		}
		for _, reason := range v.Reasons {
			b.WriteString("  - " + style.wrap(reason.Text, 4) + "\n")
		}
	}
	for _, r := range results {
		for _, warning := range r.Warnings {
			b.WriteString("\n" + style.wrap(r.Plan.Strategy+on(r.Plan.Store)+": "+warning, 2) + "\n")
		}
	}
}

func on(store string) string {
	if store == "" {
		return ""
	}
	return " on " + store
}
