package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// Style is the style of text reports. The zero value is right for a file: no colour, 120 columns.
type Style struct {
	Color bool   // ANSI colours, which carry no information of their own
	Width int    // columns; 0: 120
	Lang  string // words.English, words.Chinese; empty: English
}

func (s Style) say(key string, pairs ...any) string { return voice(s.Lang).say(key, pairs...) }

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
	blank := strings.Repeat(" ", max(0, width-words.Columns(text)))
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
		for k, piece := range pieces(word) {
			length, blank := words.Columns(piece), 0
			if k == 0 && i > 0 {
				blank = 1
			}
			switch {
			case column == 0:
			case column+blank+length > room:
				b.WriteString("\n" + strings.Repeat(" ", indent))
				column = 0
			case blank > 0:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(piece)
			column += length
		}
	}
	return b.String()
}

// pieces breaks a word where a line may break: beside a Chinese character, but not before a mark that ends something
// and not after one that opens something.
func pieces(word string) []string {
	var list []string
	from, before := 0, rune(0)
	for i, r := range word {
		if i > 0 && (words.Wide(r) || words.Wide(before)) && !strings.ContainsRune("，。：；！？、）》”", r) &&
			!strings.ContainsRune("（《“", before) {
			list = append(list, word[from:i])
			from = i
		}
		before = r
	}
	return append(list, word[from:])
}

// findingWord returns a finding as it is shown.
func (v voice) findingWord(f loadtest.Finding) (string, tone) {
	switch f {
	case loadtest.Holds:
		return v.say("word.holds"), good
	case loadtest.Broken:
		return v.say("word.broken"), bad
	}
	return v.say("word.unknown"), odd
}

// kept returns whether the promise was kept, in a word.
func (s Style) kept(v *loadtest.Verdict) (string, tone) {
	switch {
	case v.Kept && v.RaceSeen:
		return s.say("kept.expected"), odd
	case v.Kept && v.Luck:
		return s.say("kept.not-seen"), odd
	case v.Kept:
		return s.say("kept.yes"), good
	case v.Finding == loadtest.Undecided:
		return s.say("kept.unclear"), odd
	}
	return s.say("kept.no"), bad
}

// named names a run by its strategy and store.
func named(r *loadtest.Result) words.Text {
	if r.Plan.Store == "" {
		return words.Same(r.Plan.Strategy)
	}
	return phrases.Say("run", "strategy", r.Plan.Strategy, "store", r.Plan.Store)
}

// label is the width of the left column of a report.
const label = 12

// WriteReport writes everything about one run, for people.
func WriteReport(w io.Writer, r *loadtest.Result, style Style) error {
	p, v := &r.Plan, &r.Verdict
	var b strings.Builder
	heading := style.say("report.heading", "strategy", p.Strategy, "store", whose(p), "requests", requests(r),
		"units", p.Units(), "load", p.Load(), "goods", p.Goods(), "target", r.Target)
	b.WriteString(style.wrap(heading, 2) + "\n\n")
	line := style.lines(&b)
	line("rate", phrases.Say("report.rate", "sold", fmt.Sprintf("%.0f", r.Latency.Sold),
		"rate", fmt.Sprintf("%.0f", r.Latency.Rate), "seconds", fmt.Sprintf("%.2f", r.Latency.Seconds)))
	line("replies", phrases.Say("report.replies", "accepted", v.Accepted, "busy", v.Busy, "sold_out", v.SoldOut,
		"failed", v.Failed, "unknown", v.Unknown))
	if v.Recovered > 0 {
		line("", phrases.Say("report.recovered", "n", v.Recovered))
	}
	for _, text := range loadtest.FailureSorts(r.Records, 3) {
		line("", text)
	}
	lost := phrases.Say("report.unknown")
	if v.Known {
		left := words.Same(strconv.FormatInt(v.RemainingUnits, 10))
		lost = words.Same(strconv.FormatInt(v.LostUnits, 10))
		line("stock", phrases.Say("report.stock", "initial", v.InitialUnits, "sold", v.AcceptedUnits, "left", left))
	} else {
		line("stock", phrases.Say("report.stock-unknown", "initial", v.InitialUnits, "sold", v.AcceptedUnits))
	}
	line("damage", phrases.Say("report.damage", "oversold", v.OversoldUnits, "lost", lost, "collisions", v.Collisions))
	if v.Foreign > 0 {
		line("", phrases.Say("report.foreign", "n", v.Foreign))
	}
	if v.Linear.Result != "" {
		line("in-time", v.Linear.Sentence())
	}
	writeCommands(line, commands(r))
	writeInstances(line, r.Latency.Instances, v.Sent)
	b.WriteByte('\n')
	writeLatency(&b, &r.Latency, style)
	writeWarnings(&b, r, style)

	sum := "report.sum"
	if len(v.Limits) == 0 {
		sum = "report.sum-and-versions"
	}
	writeFinding(&b, v.Finding, phrases.Say(sum, "initial", v.InitialUnits, "left", v.RemainingUnits,
		"sold", v.AcceptedUnits), v.Reasons, style)
	if !v.LookedAt.IsZero() {
		line("looked", looked(v, style.Lang))
	}
	_, t := style.kept(v)
	b.WriteString(
		"  " + style.left(faint, "promise") + style.paint(t, style.wrap(v.Sentence.In(style.Lang), label+2)) + "\n")
	for _, limit := range v.Limits {
		line("not-told", limit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeFinding writes the finding, with the sum if it holds, and the reasons.
func writeFinding(b *strings.Builder, f loadtest.Finding, sum words.Text, reasons []loadtest.Reason, style Style) {
	finding, t := voice(style.Lang).findingWord(f)
	b.WriteString("\n  " + style.left(faint, "verdict") + style.paint(t, strings.ToUpper(finding)))
	if f == loadtest.Holds {
		b.WriteString(sum.In(style.Lang))
	}
	b.WriteByte('\n')
	for _, reason := range reasons {
		b.WriteString(strings.Repeat(" ", label+2) + "- " + style.wrap(reason.Text.In(style.Lang), label+4) + "\n")
	}
}

// looked says until when the store was looked at.
func looked(v *loadtest.Verdict, lang string) words.Text {
	at := voice(lang).when(v.LookedAt)
	if v.LookedMS == 0 {
		return phrases.Say("report.looked-at", "at", at)
	}
	return phrases.Say("report.looked", "at", at, "after", loadtest.Millis(v.LookedMS))
}

// lines returns a function that writes a line of a report to b, with its name from the catalogue on the left.
func (s Style) lines(b *strings.Builder) func(name string, text words.Text) {
	return func(name string, text words.Text) {
		b.WriteString("  " + s.left(faint, name) + s.wrap(text.In(s.Lang), label+2) + "\n")
	}
}

// rows returns a function that writes a row of a table of figures to b. Its first column has the given width.
func (s Style) rows(b *strings.Builder, width int) func(t tone, name string, cells ...string) {
	return func(t tone, name string, cells ...string) {
		b.WriteString("  " + s.pad(t, name, width, false))
		for _, cell := range cells {
			b.WriteString(s.pad(t, cell, 9, true))
		}
		b.WriteByte('\n')
	}
}

// left returns the left column of a line. An empty name leaves it blank.
func (s Style) left(t tone, name string) string {
	if name != "" {
		name = s.say("label." + name)
	}
	return s.pad(t, name, label, false)
}

// writeCommands writes what became of the commands of a run, the first with a label.
func writeCommands(line func(name string, text words.Text), texts []words.Text) {
	for i, text := range texts {
		name := "commands"
		if i > 0 {
			name = ""
		}
		line(name, text)
	}
}

// whose says in words where the stock of p is.
func whose(p *loadtest.Plan) words.Text {
	if p.Mapping != "" {
		return phrases.Say("store.mapped")
	}
	return store(p.Store)
}

func store(name string) words.Text {
	if name == "" {
		return phrases.Say("store.default")
	}
	return words.Same(name)
}

func requests(r *loadtest.Result) words.Text {
	switch {
	case r.Interrupted && r.Plan.Requests > 0:
		return phrases.Say("report.interrupted-of", "sent", len(r.Records), "n", r.Plan.Requests)
	case r.Interrupted:
		return phrases.Say("report.interrupted", "n", len(r.Records))
	}
	return phrases.Say("count.request", "n", r.Verdict.Sent)
}

func writeInstances(line func(string, words.Text), shares []loadtest.Share, sent int) {
	var parts []words.Text
	for _, s := range shares {
		name := words.Same(s.Instance)
		if s.Instance == "" {
			name = phrases.Say("report.no-instance")
		}
		parts = append(parts, phrases.Say("report.instance", "instance", name,
			"percent", fmt.Sprintf("%.0f %%", 100*float64(s.Replies)/float64(max(sent, 1))), "accepted", s.Accepted))
	}
	if len(parts) > 0 {
		line("instances", words.Join(parts, phrases.Say("comma")))
	}
}

func writeLatency(b *strings.Builder, l *loadtest.Latency, style Style) {
	row := style.rows(b, label)
	quantiles := func(name string, q loadtest.Quantiles) {
		row(plain, name, fmt.Sprint(q.Count), loadtest.Millis(q.P50), loadtest.Millis(q.P90), loadtest.Millis(q.P95),
			loadtest.Millis(q.P99), loadtest.Millis(q.P999), loadtest.Millis(q.Max))
	}
	named := func(key string, q loadtest.Quantiles) { quantiles(style.say("label."+key), q) }
	row(faint, style.say("label.latency"), style.say("label.replies"), "p50", "p90", "p95", "p99", "p99.9", "max")
	named("all", l.All)
	if l.Service != nil {
		named("since-sent", *l.Service)
	}
	for _, outcome := range loadtest.Outcomes() {
		if q, ok := l.ByOutcome[outcome]; ok && len(l.ByOutcome) > 1 {
			named(outcomeKey(outcome), q)
		}
	}
	for i := range l.Steps {
		quantiles("- "+l.Steps[i].Name, l.Steps[i].Quantiles)
	}
}

// writeWarnings writes why the figures above may mislead.
func writeWarnings(b *strings.Builder, r *loadtest.Result, style Style) {
	for i, warning := range r.Warnings {
		if i == 0 {
			b.WriteByte('\n')
		}
		b.WriteString("  " + style.left(odd, "warning") + style.wrap(warning.In(style.Lang), label+2) + "\n")
	}
}

// WriteExpectations writes, for each expectation of each run, whether it was met, with the actual value. It writes
// nothing if there are none.
func WriteExpectations(w io.Writer, results []*loadtest.Result, style Style) error {
	var b strings.Builder
	widths := [2]int{}
	for _, r := range results {
		widths[0] = max(widths[0], words.Columns(runName(r, len(results)).In(style.Lang)))
		for _, e := range r.Expected {
			widths[1] = max(widths[1], words.Columns(e.Text))
		}
	}
	for _, r := range results {
		for _, e := range r.Expected {
			word, t := "met", good
			if !e.Met {
				word, t = "not-met", bad
			}
			b.WriteString("  " + style.left(t, word))
			if name := runName(r, len(results)).In(style.Lang); name != "" {
				b.WriteString(style.pad(plain, name, widths[0]+2, false))
			}
			b.WriteString(style.pad(plain, e.Text, widths[1], false) + "  " +
				style.say("report.actual", "actual", e.Actual) + "\n")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := io.WriteString(w, "\n"+b.String())
	return err
}

// runName distinguishes the run from others, if there are any.
func runName(r *loadtest.Result, runs int) words.Text {
	if runs < 2 {
		return words.Text{}
	}
	return named(r)
}

// WriteInspection writes i for people.
func WriteInspection(w io.Writer, i *loadtest.Inspection, style Style) error {
	var b strings.Builder
	heading := style.say("inspection.heading", "sku", i.SKU, "store", i.Store, "target", i.Target)
	if i.Store == "" { // of an API that a mapping describes
		heading = style.say("inspection.heading-mapped", "sku", i.SKU, "target", i.Target)
	}
	b.WriteString(style.wrap(heading, 2) + "\n\n")
	line := style.lines(&b)
	left, lost := phrases.Say("report.unknown"), phrases.Say("report.unknown")
	if i.Known {
		left, lost = words.Same(fmt.Sprint(i.Remaining)), words.Same(fmt.Sprint(i.Lost))
	}
	line("stock", phrases.Say("inspection.stock", "initial", i.Initial, "sold", i.Sold, "left", left))
	orders := words.Same(fmt.Sprint(i.Orders))
	if len(i.Ways) > 0 {
		orders = phrases.Say("inspection.by", "orders", orders, "ways", list(i.Ways, "and"))
	}
	if len(i.Instances) > 0 {
		orders = phrases.Say("inspection.on", "orders", orders, "instances", list(i.Instances, "comma"))
	}
	line("orders", orders)
	if i.Accepted != nil {
		line("accepted", phrases.Say("inspection.accepted", "n", *i.Accepted))
	}
	line("damage", phrases.Say("report.damage", "oversold", i.Oversold, "lost", lost, "collisions", i.Collisions))

	sum := "report.sum"
	if i.Orders > 0 {
		sum = "inspection.sum-and-orders"
	}
	writeFinding(&b, i.Finding, phrases.Say(sum, "initial", i.Initial, "left", i.Remaining, "sold", i.Sold),
		i.Reasons, style)
	if !i.LookedAt.IsZero() {
		line("looked", phrases.Say("report.looked-at", "at", voice(style.Lang).when(i.LookedAt)))
	}
	for _, note := range i.Notes {
		line("note", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
