// Package report shows runs of the load test: as one page of HTML that needs no network, as pictures for slides, as
// tables for other programs, and side by side. It computes everything from Results, and so works from histories at any
// later time.
package report

import (
	"embed"
	_ "embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

//go:embed page.html.tmpl run.html.tmpl compare.html.tmpl diff.html.tmpl page.css patterns.svg
var files embed.FS

// A Group is a set of runs that can be compared, such as the same load on different strategies.
type Group struct {
	Title string // may be empty
	Runs  []*loadtest.Result
}

// A Page is the input of WriteHTML.
type Page struct {
	Title  string // empty: of the first run
	Groups []Group
	Notes  []string // what the reader should know first, such as that a history was cut off
	Diff   *Comparison
}

// The most holds and lanes that are drawn of a run on a page of its own, and on a page of many.
const (
	holdsAlone, lanesAlone = 400, 60
	holdsBeside, lanesMany = 90, 24
	detailed               = 40 // runs of a page that are shown in detail; the others are in the tables
)

// WriteHTML writes a page that is complete in itself: it opens from disk, makes no network requests, and follows the
// reader's choice of light or dark.
func WriteHTML(w io.Writer, p Page) error {
	t, err := template.New("page.html.tmpl").Funcs(template.FuncMap{
		"millis":    millis,
		"words":     words[loadtest.Outcome],
		"thousands": grouped,
		"percent": func(part, whole int) string {
			return fmt.Sprintf("%.1f %%",
				100*float64(part)/float64(max(whole, 1)))
		},
	}).ParseFS(files, "*.tmpl")
	if err != nil {
		return err
	}
	return t.Execute(w, p.view())
}

type pageView struct {
	Title    string
	Style    template.CSS
	Patterns template.HTML
	Notes    []string
	Groups   []groupView
	Single   *runView // the only run
	Diff     *Comparison
	Summary  *summary // of several runs
}

type groupView struct {
	Title   string
	Compare *compareView
	Runs    []*runView
	LeftOut int // runs not shown in detail
}

func (p Page) view() pageView {
	v := pageView{
		Title:    p.Title,
		Style:    template.CSS(read("page.css")),
		Patterns: template.HTML(read("patterns.svg")),
		Notes:    p.Notes,
		Diff:     p.Diff,
	}
	total := 0
	for _, g := range p.Groups {
		total += len(g.Runs)
	}
	if total == 1 {
		for _, g := range p.Groups {
			for _, r := range g.Runs {
				v.Single = newRunView(r, "r", limits{holdsAlone, lanesAlone}, true)
				if v.Title == "" {
					v.Title = v.Single.Heading
				}
			}
		}
		return v
	}
	if v.Title == "" {
		v.Title = fmt.Sprintf("%d runs side by side", total)
	}
	v.Summary = p.summary()
	// The last groups matter most: the earlier ones lead up to them.
	room := detailed
	v.Groups = make([]groupView, len(p.Groups))
	for n := len(p.Groups) - 1; n >= 0; n-- {
		g := p.Groups[n]
		gv := groupView{Title: g.Title, Compare: newCompareView(g.Runs)}
		for i, r := range g.Runs {
			if room == 0 {
				gv.LeftOut = len(g.Runs) - i
				break
			}
			room--
			gv.Runs = append(gv.Runs, newRunView(r, fmt.Sprintf("g%dr%d", n, i), limits{holdsBeside, lanesMany}, false))
		}
		v.Groups[n] = gv
	}
	return v
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(text)
}

func escape(text string) string { return html.EscapeString(text) }

// heading describes a run in a line.
func heading(r *loadtest.Result) string {
	text := r.Plan.Strategy
	if r.Plan.Store != "" {
		text += " on " + r.Plan.Store
	}
	return text
}

// load describes the load of a run.
func load(r *loadtest.Result) string {
	p := &r.Plan
	var parts []string
	parts = append(parts, count(len(r.Records), "request"))
	if p.Open() {
		parts = append(parts, "due at "+p.Rate.String()+" per second whether or not the service keeps up")
	} else {
		parts = append(parts, "from "+count(p.Concurrency, "worker"))
	}
	stock := "for " + count(p.Stock, "unit")
	if p.SKUs > 1 {
		stock += fmt.Sprintf(" of each of %d SKUs", p.SKUs)
	}
	parts = append(parts, stock)
	if p.Duration > 0 {
		parts = append(parts, "for "+p.Duration.String())
	}
	return strings.Join(parts, ", ")
}

func when(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format("2 January 2006, 15:04:05 UTC")
}

// grouped formats any integer of a template with separated thousands.
func grouped(n any) (string, error) {
	switch n := n.(type) {
	case int:
		return thousands(int64(n)), nil
	case int64:
		return thousands(n), nil
	}
	return "", fmt.Errorf("%T is no number to show", n)
}

// A runView is the data of the template of one run.
type runView struct {
	ID, Heading, Load, When   string
	R                         *loadtest.Result
	V                         *loadtest.Verdict
	Word, Class, Plain        string // the verdict: in a word, for the style sheet, in a sentence
	Linear                    string
	StockWide, StockNarrow    template.HTML
	Course                    *course
	Names, Bars, Strip        template.HTML
	T                         *timeline
	Pairs                     []string
	MorePairs                 bool
	Promise                   string
	Mapped                    bool // of a foreign API, which reports no versions
	TimelineNotes, StockNotes []string
	Percentiles, Histogram    template.HTML
	Outcomes                  []outcomeRow
	Shares                    []shareRow
	Fair                      loadtest.Fairness
	Command                   string
	Failures                  []string
}

type outcomeRow struct {
	Outcome loadtest.Outcome
	loadtest.Quantiles
}

type shareRow struct {
	Instance          string
	Replies, Accepted int
	Percent, Sold     float64 // of all replies
}

func newRunView(r *loadtest.Result, id string, most limits, whole bool) *runView {
	v := &runView{
		ID:      id,
		Heading: heading(r),
		Load:    load(r),
		When:    when(r.StartedAt),
		R:       r,
		V:       &r.Verdict,
		Command: r.Command,
		Fair:    loadtest.FairnessOf(r),
	}
	v.Word, v.Class, v.Plain = judged(&r.Verdict)
	v.Promise = promised(&r.Strategy.Promise)
	v.Mapped = slices.ContainsFunc(r.Accounts, func(a loadtest.Account) bool { return a.Before.Mapped })
	v.Linear = r.Verdict.Linear.Sentence()
	v.T = lay(r, most)
	v.timeline()
	v.stock(whole)
	v.latency()
	for _, s := range r.Latency.Instances {
		all := float64(max(len(r.Records), 1))
		v.Shares = append(v.Shares, shareRow{
			instance(s.Instance),
			s.Replies,
			s.Accepted,
			100 * float64(s.Replies) / all,
			100 * float64(s.Accepted) / all,
		})
	}
	v.Failures = loadtest.FailureSorts(r.Records, 5)
	return v
}

// judged returns the verdict as a word, as a class, and as a sentence for readers who do not know locks.
func judged(v *loadtest.Verdict) (word, class, plain string) {
	switch {
	case v.Finding == loadtest.Undecided:
		return "Not decided", "odd", "What was recorded does not suffice to say whether stock was lost."
	case v.Finding == loadtest.Holds:
		return "Holds", "good", fmt.Sprintf("No stock was lost: there were %s, %s sold and %d remain, and no two "+
			"orders sold the same unit.", count(v.InitialUnits, "unit"), were(v.AcceptedUnits), v.RemainingUnits)
	}
	word, class = "Broken", "bad"
	if v.Kept {
		class = "raced" // as expected
	}
	switch {
	case v.OversoldUnits > 0:
		plain = fmt.Sprintf("It sold %s of %d: %s more than there were.", count(v.AcceptedUnits, "unit"),
			v.InitialUnits, count(v.OversoldUnits, "unit"))
	case v.Known && v.LostUnits > 0:
		plain = fmt.Sprintf("It sold %s, but the stock went down by %d only: the store still offers %s that are sold.",
			count(v.AcceptedUnits, "unit"), v.InitialUnits-v.RemainingUnits, count(v.LostUnits, "unit"))
	case v.Known && v.LostUnits < 0:
		plain = fmt.Sprintf("The stock went down by %s more than were sold.", count(-v.LostUnits, "unit"))
	default:
		plain = "The replies and the store contradict each other."
	}
	return word, class, plain
}

func were(n int64) string {
	if n == 1 {
		return "1 was"
	}
	return thousands(n) + " were"
}

func (v *runView) timeline() {
	t := v.T
	note := func(format string, args ...any) {
		v.TimelineNotes = append(v.TimelineNotes, fmt.Sprintf(format, args...))
	}
	if t.missing > 0 {
		note("%s told no times, and are not drawn.", count(t.missing, "accepted request"))
	}
	if len(t.bars) == 0 {
		note("There are no holds to draw: nothing was accepted, or the replies tell no times.")
		return
	}
	names, bars := t.gantt()
	v.Names, v.Bars, v.Strip = template.HTML(names), template.HTML(bars), template.HTML(t.strip())
	if t.inWindow < t.total {
		note("Thinned out: %s of %s are drawn, those from %s to %s of a run of %s%s. The strip below is the whole run.",
			thousands(int64(len(t.bars))), count(t.total, "hold"), millis(t.from), millis(t.to), millis(t.length),
			where(t))
	}
	if t.lanesLeft > 0 {
		note("%s with fewer holds in this time are left out.", count(t.lanesLeft, "lane"))
	}
	note("Only accepted requests tell when they held. Times are by each instance's clock; the proof of a lost update " +
		"is in the collisions below, which need no clock.")
	v.MorePairs = t.pairs > len(t.shown)
	for _, p := range t.shown {
		v.Pairs = append(v.Pairs, p.sentence())
	}
}

func where(t *timeline) string {
	if t.pairs > 0 {
		return ", around the first overlap"
	}
	return ""
}

func (v *runView) stock(whole bool) {
	c := follow(v.R, v.T.story)
	v.Course = c
	if len(c.truth) < 2 {
		return
	}
	label := fmt.Sprintf("Stock of %s over time, as read, as written and as true", c.sku)
	if whole {
		v.StockWide = template.HTML(stockChart(c, marked, 11).toSVG(1120, 300, "wide", label, c.hints(80)))
	}
	v.StockNarrow = template.HTML(stockChart(c, marked, 10.5).toSVG(420, 280, "narrow", label, c.hints(30)))
	note := func(format string, args ...any) { v.StockNotes = append(v.StockNotes, fmt.Sprintf(format, args...)) }
	if c.others > 0 {
		note("Of %d SKUs this is %s, which lost most, or else sold most.", c.others+1, c.sku)
	}
	if c.parts {
		note("What requests read and wrote is not drawn: each saw one segment of the stock, or did not tell.")
	}
	if len(c.read) > 0 {
		note("A read is drawn when its request entered the critical section, and a write when it left.")
	}
	if n := len(c.read); n > places {
		note("Thinned out: of %s those that can be told apart are drawn.", count(n, "sale"))
	}
}

func (v *runView) latency() {
	l := latenciesOf(v.R)
	for _, o := range l.outcomes() {
		v.Outcomes = append(v.Outcomes, outcomeRow{o, v.R.Latency.ByOutcome[o]})
	}
	if len(v.Outcomes) == 0 {
		return
	}
	v.Percentiles = template.HTML(
		percentileChart(l, marked, 10.5).toSVG(420, 280, "", "Latency by percentile and outcome", nil))
	h := l.histogram()
	v.Histogram = template.HTML(
		histogramChart(l, h, marked, 10.5, 420).toSVG(420, 280, "", "Histogram of latencies by outcome", h.hints(l)))
}

// promised describes the promise of a strategy, as far as a load run can check it.
func promised(p *loadtest.Promise) string {
	text := "nothing: lost updates are to be expected"
	switch p.Scope {
	case loadtest.Process:
		text = "no lost updates among the requests of one instance"
	case loadtest.Cluster:
		text = "no lost updates, whichever instances serve"
	}
	for _, more := range []struct {
		is   bool
		text string
	}{
		{p.Exclusive, "one holder at a time"},
		{p.Fenced, "late writes are refused (fenced)"},
		{p.Fair, "served in turn"},
		{p.Blocking, "waits for its turn"},
	} {
		if more.is {
			text += "; " + more.text
		}
	}
	return text
}

//go:embed schema.json
var schema []byte

// Schema returns the JSON schema (draft 2020-12) of what loadtest.WriteJSON writes.
func Schema() []byte { return schema }
