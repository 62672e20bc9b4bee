package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// A cell returns the text of one run, and its colour.
type cell func(*loadtest.Result) (string, tone)

// A column of the table of runs.
type column struct {
	name string                      // of its head in the catalogue, which has one line or two
	text bool                        // left-aligned
	drop int                         // order of leaving out for lack of room, the largest first; 0: never
	need func(*loadtest.Result) bool // reports whether a run needs the column; nil: all do
	cell cell
}

func verdictCount[N int | int64](get func(*loadtest.Verdict) N, nonzero tone) cell {
	return func(r *loadtest.Result) (string, tone) {
		n := get(&r.Verdict)
		if n == 0 {
			return "0", plain
		}
		return strconv.FormatInt(int64(n), 10), nonzero
	}
}

// known returns c, or "?" if the final stock is unknown.
func known(c cell) cell {
	return func(r *loadtest.Result) (string, tone) {
		if !r.Verdict.Known {
			return "?", odd
		}
		return c(r)
	}
}

func (s Style) columns() []column {
	return []column{
		{
			name: "strategy", text: true,
			cell: func(r *loadtest.Result) (string, tone) { return r.Plan.Strategy, plain },
		},
		{
			name: "store", text: true, drop: 1,
			cell: func(r *loadtest.Result) (string, tone) { return r.Plan.Store, plain },
		},
		{
			name: "sold",
			cell: soldOnly(func(r *loadtest.Result) string { return fmt.Sprintf("%.0f", r.Latency.Sold) }),
		},
		{name: "sent", cell: verdictCount(func(v *loadtest.Verdict) int { return v.Sent }, plain)},
		{name: "accepted", cell: verdictCount(func(v *loadtest.Verdict) int { return v.Accepted }, plain)},
		{name: "busy", cell: verdictCount(func(v *loadtest.Verdict) int { return v.Busy }, plain)},
		{name: "sold-out", cell: verdictCount(func(v *loadtest.Verdict) int { return v.SoldOut }, plain)},
		{name: "failed", cell: func(r *loadtest.Result) (string, tone) { return failures(&r.Verdict) }},
		{
			name: "remaining",
			cell: known(verdictCount(func(v *loadtest.Verdict) int64 { return v.RemainingUnits }, plain)),
		},
		{name: "oversold", cell: verdictCount(func(v *loadtest.Verdict) int64 { return v.OversoldUnits }, bad)},
		{name: "lost", cell: known(verdictCount(func(v *loadtest.Verdict) int64 { return v.LostUnits }, bad))},
		{
			name: "p50", drop: 3,
			cell: soldOnly(func(r *loadtest.Result) string { return loadtest.Millis(r.Latency.Accepted().P50) }),
		},
		{
			name: "p99", drop: 2,
			cell: soldOnly(func(r *loadtest.Result) string { return loadtest.Millis(r.Latency.Accepted().P99) }),
		},
		{
			name: "rate", drop: 4,
			cell: func(r *loadtest.Result) (string, tone) { return fmt.Sprintf("%.0f", r.Latency.Rate), plain },
		},
		{
			name: "wake-ups", drop: 1, need: func(r *loadtest.Result) bool { return r.WakeUps() > 0 },
			cell: func(r *loadtest.Result) (string, tone) { return fmt.Sprintf("%.1f", r.WakeUps()), plain },
		},
		{
			name: "per-batch",
			drop: 3,
			need: func(r *loadtest.Result) bool { return r.PerBatch() > 0 },
			cell: func(r *loadtest.Result) (string, tone) {
				if r.PerBatch() == 0 {
					return "–", plain
				}
				return fmt.Sprintf("%.1f", r.PerBatch()), plain
			},
		},
		{name: "fair", drop: 4, cell: func(r *loadtest.Result) (string, tone) { return evenness(r), plain }},
		{
			name: "longest-wait", drop: 5,
			cell: func(r *loadtest.Result) (string, tone) { return longestWait(r), plain },
		},
		{
			name: "verdict", text: true,
			cell: func(r *loadtest.Result) (string, tone) { return voice(s.Lang).findingWord(r.Verdict.Finding) },
		},
		{name: "kept", text: true, cell: func(r *loadtest.Result) (string, tone) { return s.kept(&r.Verdict) }},
	}
}

// head returns the two lines of the head of a column. The first is empty if one will do.
func (s Style) head(c column) [2]string {
	first, second, two := strings.Cut(s.say("column."+c.name), "\n")
	if two {
		return [2]string{first, second}
	}
	return [2]string{"", first}
}

// soldOnly returns text, or a dash if nothing was sold.
func soldOnly(text func(*loadtest.Result) string) cell {
	return func(r *loadtest.Result) (string, tone) {
		if r.Latency.Accepted().Count == 0 {
			return "–", plain
		}
		return text(r), plain
	}
}

// failures returns the number of failed requests, then "+" and the number of those with an unknown outcome, if any.
func failures(v *loadtest.Verdict) (string, tone) {
	text, t := strconv.Itoa(v.Failed), plain
	if v.Unknown > 0 {
		text += "+" + strconv.Itoa(v.Unknown)
	}
	if v.Failed+v.Unknown > 0 {
		t = odd
	}
	return text, t
}

// WriteTable writes a table with a row for each run, and below it a sentence for each run that needs one. On a narrow
// terminal, columns move together and the less important ones are left out.
func WriteTable(w io.Writer, results []*loadtest.Result, style Style) error {
	cols := slices.DeleteFunc(style.columns(),
		func(c column) bool { return c.need != nil && !slices.ContainsFunc(results, c.need) })
	widths := make([]int, len(cols))
	for i, col := range cols {
		head := style.head(col)
		widths[i] = max(words.Columns(head[0]), words.Columns(head[1]))
		for _, r := range results {
			text, _ := col.cell(r)
			widths[i] = max(widths[i], words.Columns(text))
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
	for line := range 2 {
		row(func(c column) (string, tone) { return style.head(c)[line], faint })
	}
	for _, r := range results {
		row(func(c column) (string, tone) { return c.cell(r) })
	}
	writeNotes(&b, results, style)
	_, err := io.WriteString(w, b.String())
	return err
}

// writeNotes writes the reasons of each run whose row is incomplete.
func writeNotes(b *strings.Builder, results []*loadtest.Result, style Style) {
	if slices.ContainsFunc(results, func(r *loadtest.Result) bool { return r.Verdict.Unknown > 0 }) {
		b.WriteString("\n" + style.say("table.unknown") + "\n")
	}
	first := true
	for _, r := range results {
		v := &r.Verdict
		if v.Finding == loadtest.Holds && v.Kept && !v.Luck && !r.Interrupted {
			continue
		}
		if first {
			b.WriteByte('\n')
			first = false
		}
		key := "table.sentence"
		if r.Interrupted {
			key = "table.interrupted"
		}
		b.WriteString(style.wrap(phrases.Say(key, "run", named(r), "sentence", v.Sentence).In(style.Lang), 2) + "\n")
		if v.Kept {
			continue
		}
		for _, reason := range v.Reasons {
			b.WriteString("  - " + style.wrap(reason.Text.In(style.Lang), 4) + "\n")
		}
	}
	left := 0
	for _, r := range results {
		ofMany, never := r.NeverRanOut()
		if never {
			left++
		}
		for _, text := range append(commands(r), r.Warnings...) {
			if text == ofMany {
				continue // said below, once for all runs
			}
			text := style.say("table.sentence", "run", named(r), "sentence", text)
			b.WriteString("\n" + style.wrap(text, 2) + "\n")
		}
	}
	if left > 0 {
		b.WriteString("\n" + style.wrap(style.say("table.never-ran-out", "n", left), 2) + "\n")
	}
}

// evenness returns Jain's index as shown.
func evenness(r *loadtest.Result) string {
	if r.Fairness.Jain > 0 {
		return fmt.Sprintf("%.2f", r.Fairness.Jain)
	}
	return "–"
}

func longestWait(r *loadtest.Result) string {
	if r.Fairness.LongestWaitMS > 0 {
		return loadtest.Millis(r.Fairness.LongestWaitMS)
	}
	return "–"
}
