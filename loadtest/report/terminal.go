package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.com/stock/loadtest"
)

// Style says how reports for people look. The zero value is right for a file: no colour, 120 columns.
type Style struct {
	Color bool // ANSI colours; every coloured word says the same without
	Width int  // columns; 0: 120
}

func (s Style) width() int {
	if s.Width <= 0 {
		return 120
	}
	return max(s.Width, 40)
}

// A tone is an ANSI colour, or plain.
type tone string

const (
	plain tone = ""
	good  tone = "32"
	bad   tone = "1;31"
	odd   tone = "33"
	faint tone = "2"
)

func (s Style) paint(t tone, text string) string {
	if !s.Color || t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// pad pads text to width before it adds colour, so that colour codes do not count as columns.
func (s Style) pad(t tone, text string, width int, right bool) string {
	blank := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
	if right {
		return blank + s.paint(t, text)
	}
	return s.paint(t, text) + blank
}

// wrap breaks text into lines that fit beside indent columns. It does not indent the first line.
func (s Style) wrap(text string, indent int) string {
	var b strings.Builder
	room := max(s.width()-indent, 20)
	column := 0
	for i, word := range strings.Fields(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+length > room:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}

// word returns the finding as shown: in capitals where colour would be red.
func word(v *loadtest.Verdict) (string, tone) {
	switch {
	case v.Finding == loadtest.Holds:
		return "holds", good
	case v.Finding == loadtest.Broken && v.Kept:
		return "BROKEN", odd
	case v.Finding == loadtest.Broken:
		return "BROKEN", bad
	}
	return "unknown", odd
}

// kept returns whether the promise was kept, in a word.
func kept(v *loadtest.Verdict) (string, tone) {
	switch {
	case v.Kept && v.RaceSeen:
		return "expected", odd
	case v.Kept && v.Luck:
		return "not seen", odd
	case v.Kept:
		return "yes", good
	case v.Finding == loadtest.Undecided:
		return "unclear", odd
	}
	return "NO", bad
}

// A cell returns the text of one run, and its colour.
type cell func(*loadtest.Result) (string, tone)

// A column of the table of runs. Its head has two lines.
type column struct {
	head [2]string
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

// known returns c, or "?" where the final stock is not known.
func known(c cell) cell {
	return func(r *loadtest.Result) (string, tone) {
		if !r.Verdict.Known {
			return "?", odd
		}
		return c(r)
	}
}

func columns() []column {
	return []column{
		{
			head: [2]string{"", "strategy"},
			text: true,
			cell: func(r *loadtest.Result) (string, tone) { return r.Plan.Strategy, plain },
		},
		{
			head: [2]string{"", "store"},
			text: true,
			drop: 1,
			cell: func(r *loadtest.Result) (string, tone) { return r.Plan.Store, plain },
		},
		{head: [2]string{"", "sent"}, cell: verdictCount(func(v *loadtest.Verdict) int { return v.Sent }, plain)},
		{
			head: [2]string{"", "accepted"},
			cell: verdictCount(func(v *loadtest.Verdict) int { return v.Accepted }, plain),
		},
		{head: [2]string{"", "busy"}, cell: verdictCount(func(v *loadtest.Verdict) int { return v.Busy }, plain)},
		{head: [2]string{"sold", "out"}, cell: verdictCount(func(v *loadtest.Verdict) int { return v.SoldOut }, plain)},
		{head: [2]string{"", "failed"}, cell: func(r *loadtest.Result) (string, tone) { return failures(&r.Verdict) }},
		{
			head: [2]string{"", "remaining"},
			cell: known(verdictCount(func(v *loadtest.Verdict) int64 { return v.RemainingUnits }, plain)),
		},
		{
			head: [2]string{"", "oversold"},
			cell: verdictCount(func(v *loadtest.Verdict) int64 { return v.OversoldUnits }, bad),
		},
		{
			head: [2]string{"lost", "updates"},
			cell: known(verdictCount(func(v *loadtest.Verdict) int64 { return v.LostUnits }, bad)),
		},
		{
			head: [2]string{"sold", "/s"},
			cell: soldOnly(func(r *loadtest.Result) string { return fmt.Sprintf("%.0f", r.Latency.Sold) }),
		},
		{
			head: [2]string{"sold", "p50"},
			drop: 3,
			cell: soldOnly(func(r *loadtest.Result) string { return loadtest.Millis(r.Latency.Accepted().P50) }),
		},
		{
			head: [2]string{"sold", "p99"},
			drop: 2,
			cell: soldOnly(func(r *loadtest.Result) string { return loadtest.Millis(r.Latency.Accepted().P99) }),
		},
		{
			head: [2]string{"", "req/s"},
			drop: 4,
			cell: func(r *loadtest.Result) (string, tone) { return fmt.Sprintf("%.0f", r.Latency.Rate), plain },
		},
		{
			head: [2]string{
				"wakeups",
				"/sale",
			},
			drop: 1,
			need: func(r *loadtest.Result) bool { return r.WakeUps() > 0 },
			cell: func(r *loadtest.Result) (string, tone) { return fmt.Sprintf("%.1f", r.WakeUps()), plain },
		},
		{
			head: [2]string{"sales", "/batch"},
			drop: 2,
			need: func(r *loadtest.Result) bool { return r.PerBatch() > 0 },
			cell: func(r *loadtest.Result) (string, tone) {
				if r.PerBatch() == 0 {
					return "–", plain
				}
				return fmt.Sprintf("%.1f", r.PerBatch()), plain
			},
		},
		{
			head: [2]string{
				"round",
				"trips",
			},
			drop: 6,
			need: func(r *loadtest.Result) bool { return r.Strategy.RoundTrips > 0 },
			cell: func(r *loadtest.Result) (string, tone) { return roundTrips(r), plain },
		},
		{
			head: [2]string{"", "fair"},
			drop: 4,
			cell: func(r *loadtest.Result) (string, tone) { return evenness(r), plain },
		},
		{
			head: [2]string{"longest", "wait"},
			drop: 5,
			cell: func(r *loadtest.Result) (string, tone) { return longestWait(r), plain },
		},
		{
			head: [2]string{"", "verdict"},
			text: true,
			cell: func(r *loadtest.Result) (string, tone) { return word(&r.Verdict) },
		},
		{
			head: [2]string{"as", "promised"},
			text: true,
			cell: func(r *loadtest.Result) (string, tone) { return kept(&r.Verdict) },
		},
	}
}

// soldOnly returns text, or a dash where nothing was sold.
func soldOnly(text func(*loadtest.Result) string) cell {
	return func(r *loadtest.Result) (string, tone) {
		if r.Latency.Accepted().Count == 0 {
			return "–", plain
		}
		return text(r), plain
	}
}

// roundTrips returns the round trips of an uncontended acquire and release, as the service reports them. They do not
// depend on the run.
func roundTrips(r *loadtest.Result) string {
	if r.Strategy.RoundTrips == 0 {
		return "–"
	}
	return strconv.Itoa(r.Strategy.RoundTrips)
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
	cols := slices.DeleteFunc(columns(),
		func(c column) bool { return c.need != nil && !slices.ContainsFunc(results, c.need) })
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

// writeNotes writes the reasons of each run that its row does not tell completely.
func writeNotes(b *strings.Builder, results []*loadtest.Result, style Style) {
	if slices.ContainsFunc(results, func(r *loadtest.Result) bool { return r.Verdict.Unknown > 0 }) {
		b.WriteString("\nfailed a+b: b requests have an unknown outcome, and no order in the store as far as is " +
			"known.\n")
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

// evenness returns Jain's index as shown.
func evenness(r *loadtest.Result) string {
	if f := loadtest.FairnessOf(r); f.Jain > 0 {
		return fmt.Sprintf("%.2f", f.Jain)
	}
	return "-"
}

func longestWait(r *loadtest.Result) string {
	if f := loadtest.FairnessOf(r); f.LongestWaitMS > 0 {
		return loadtest.Millis(f.LongestWaitMS)
	}
	return "-"
}

// label is the width of the left column of a report.
const label = 12

// WriteReport writes everything about one run, for people.
func WriteReport(w io.Writer, r *loadtest.Result, style Style) error {
	p, v := &r.Plan, &r.Verdict
	var b strings.Builder
	heading := fmt.Sprintf("%s on %s: %s of %s, %s, %s, target %s",
		p.Strategy, whose(p), requests(r), p.Units(), p.Load(), p.Goods(), r.Target)
	b.WriteString(style.wrap(heading, 2) + "\n\n")
	line := func(name, format string, args ...any) {
		b.WriteString(
			"  " + style.pad(faint, name, label, false) + style.wrap(fmt.Sprintf(format, args...), label+2) + "\n")
	}
	line("replies", "accepted %d, busy %d, sold out %d, failed %d, unknown %d", v.Accepted, v.Busy, v.SoldOut, v.Failed,
		v.Unknown)
	if v.Recovered > 0 {
		line("", "%d of the accepted had no usable reply; their orders were found in the store", v.Recovered)
	}
	for _, text := range loadtest.FailureSorts(r.Records, 3) {
		line("", "%s", text)
	}
	if v.Known {
		line("stock", "%d at first, %d sold, %d remaining", v.InitialUnits, v.AcceptedUnits, v.RemainingUnits)
		line("damage", "oversold %d, lost updates %d, collisions %d", v.OversoldUnits, v.LostUnits, v.Collisions)
	} else {
		line("stock", "%d at first, %d sold, remaining not known", v.InitialUnits, v.AcceptedUnits)
		line("damage", "oversold %d, lost updates not known, collisions %d", v.OversoldUnits, v.Collisions)
	}
	if v.Foreign > 0 {
		line("", "%d orders are not of this run: others sold from the same SKU, and are counted in", v.Foreign)
	}
	if v.Overlaps > 0 {
		line("holds", "%d overlap, by %s at most; by the instances' clocks, after the release was answered: no proof",
			v.Overlaps, loadtest.Millis(v.LongestOverlapMS))
	}
	if v.Linear.Result != "" {
		line("in time", "%s", v.Linear.Sentence())
	}
	line("rate", "%.0f units sold per second until the last was sold; %.0f requests/s in %.2f s",
		r.Latency.Sold, r.Latency.Rate, r.Latency.Seconds)
	writeInstances(line, r.Latency.Instances, v.Sent)
	b.WriteByte('\n')
	writeLatency(&b, &r.Latency, style)
	writeWarnings(&b, r, style)

	finding, t := word(v)
	b.WriteString("\n  " + style.pad(faint, "verdict", label, false) + style.paint(t, strings.ToUpper(finding)))
	if v.Finding == loadtest.Holds {
		fmt.Fprintf(&b, ": %d = %d remaining + %d sold", v.InitialUnits, v.RemainingUnits, v.AcceptedUnits)
		if len(v.Limits) == 0 {
			b.WriteString(", and no two orders read the same version")
		}
	}
	b.WriteByte('\n')
	for _, reason := range v.Reasons {
		b.WriteString(strings.Repeat(" ", label+2) + "- " + style.wrap(reason.Text, label+4) + "\n")
	}
	_, t = kept(v)
	b.WriteString(
		"  " + style.pad(faint, "promise", label, false) + style.paint(t, style.wrap(v.Sentence, label+2)) + "\n")
	for _, limit := range v.Limits {
		line("not told", "%s", limit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// whose says in words where the stock of p is.
func whose(p *loadtest.Plan) string {
	if p.Mapping != "" {
		return "somebody else's service"
	}
	return store(p.Store)
}

func store(name string) string {
	if name == "" {
		return "the default store"
	}
	return name
}

func requests(r *loadtest.Result) string {
	switch {
	case r.Interrupted && r.Plan.Requests > 0:
		return fmt.Sprintf("interrupted after %d of %d %s", len(r.Records), r.Plan.Requests,
			plural(r.Plan.Requests, "request"))
	case r.Interrupted:
		return fmt.Sprintf("interrupted after %d %s", len(r.Records), plural(len(r.Records), "request"))
	}
	return fmt.Sprintf("%d %s", r.Verdict.Sent, plural(r.Verdict.Sent, "request"))
}

func writeInstances(line func(string, string, ...any), shares []loadtest.Share, sent int) {
	var parts []string
	for _, s := range shares {
		name := s.Instance
		if name == "" {
			name = "none named"
		}
		parts = append(parts,
			fmt.Sprintf("%s %.0f %% (%d accepted)", name, 100*float64(s.Replies)/float64(max(sent, 1)), s.Accepted))
	}
	if len(parts) > 0 {
		line("instances", "%s", strings.Join(parts, ", "))
	}
}

func writeLatency(b *strings.Builder, l *loadtest.Latency, style Style) {
	row := func(t tone, name string, cells ...string) {
		b.WriteString("  " + style.pad(t, name, label, false))
		for _, cell := range cells {
			b.WriteString(style.pad(t, cell, 9, true))
		}
		b.WriteByte('\n')
	}
	quantiles := func(name string, q loadtest.Quantiles) {
		row(plain, name, fmt.Sprint(q.Count), loadtest.Millis(q.P50), loadtest.Millis(q.P90), loadtest.Millis(q.P95),
			loadtest.Millis(q.P99), loadtest.Millis(q.P999), loadtest.Millis(q.Max))
	}
	row(faint, "latency", "replies", "p50", "p90", "p95", "p99", "p99.9", "max")
	quantiles("all", l.All)
	if l.Service != nil {
		quantiles("since sent", *l.Service)
	}
	for _, outcome := range loadtest.Outcomes() {
		if q, ok := l.ByOutcome[outcome]; ok && len(l.ByOutcome) > 1 {
			quantiles(strings.ReplaceAll(string(outcome), "_", " "), q)
		}
	}
}

// writeWarnings writes why the figures above may mislead.
func writeWarnings(b *strings.Builder, r *loadtest.Result, style Style) {
	for i, warning := range r.Warnings {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + style.pad(odd, "warning", label, false) + style.wrap(warning, label+2) + "\n")
	}
}

// WriteExpectations writes, for each expectation of each run, whether it was met, with the actual value. It writes
// nothing if there are none.
func WriteExpectations(w io.Writer, results []*loadtest.Result, style Style) error {
	var b strings.Builder
	widths := [2]int{}
	for _, r := range results {
		widths[0] = max(widths[0], utf8.RuneCountInString(runName(r, len(results))))
		for _, e := range r.Expected {
			widths[1] = max(widths[1], utf8.RuneCountInString(e.Text))
		}
	}
	for _, r := range results {
		for _, e := range r.Expected {
			word, t := "met", good
			if !e.Met {
				word, t = "NOT MET", bad
			}
			b.WriteString("  " + style.pad(t, word, label, false))
			if name := runName(r, len(results)); name != "" {
				b.WriteString(style.pad(plain, name, widths[0]+2, false))
			}
			fmt.Fprintf(&b, "%s  actual %s\n", style.pad(plain, e.Text, widths[1], false), e.Actual)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+b.String())
	return err
}

// runName distinguishes the run from others, if there are any.
func runName(r *loadtest.Result, runs int) string {
	if runs < 2 {
		return ""
	}
	return r.Plan.Strategy + on(r.Plan.Store)
}

// WriteInspection writes i for people.
func WriteInspection(w io.Writer, i *loadtest.Inspection, style Style) error {
	var b strings.Builder
	b.WriteString(style.wrap(
		fmt.Sprintf("%s on %s at %s, judged from the store alone", i.SKU, store(i.Store), i.Target), 2,
	) + "\n\n")
	line := func(name, format string, args ...any) {
		b.WriteString(
			"  " + style.pad(faint, name, label, false) + style.wrap(fmt.Sprintf(format, args...), label+2) + "\n",
		)
	}
	remaining, lost := "not known", "not known"
	if i.Known {
		remaining, lost = fmt.Sprint(i.Remaining), fmt.Sprint(i.Lost)
	}
	line("stock", "%d at first, %d sold, remaining %s", i.Initial, i.Sold, remaining)
	by := ""
	if len(i.Ways) > 0 {
		by += ", by " + strings.Join(i.Ways, " and ")
	}
	if len(i.Instances) > 0 {
		by += ", on " + strings.Join(i.Instances, ", ")
	}
	line("orders", "%d%s", i.Orders, by)
	if i.Accepted != nil {
		line("accepted", "%d, as you say", *i.Accepted)
	}
	line("damage", "oversold %d, lost updates %s, collisions %d", i.Oversold, lost, i.Collisions)

	finding, t := word(&loadtest.Verdict{Finding: i.Finding})
	b.WriteString("\n  " + style.pad(faint, "verdict", label, false) + style.paint(t, strings.ToUpper(finding)))
	if i.Finding == loadtest.Holds {
		fmt.Fprintf(&b, ": %d = %d remaining + %d sold", i.Initial, i.Remaining, i.Sold)
		if i.Orders > 0 {
			b.WriteString(", and no two orders read the same")
		}
	}
	b.WriteByte('\n')
	for _, reason := range i.Reasons {
		b.WriteString(strings.Repeat(" ", label+2) + "- " + style.wrap(reason.Text, label+4) + "\n")
	}
	for _, note := range i.Notes {
		line("note", "%s", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
