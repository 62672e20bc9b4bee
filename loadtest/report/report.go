// Package report shows runs of the load test: as text, as an HTML page that needs no network, and as pictures. It
// computes everything from Results, so it also works from histories.
package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

//go:embed *.html.tmpl page.css patterns.svg
var files embed.FS

// A Group is a set of runs that can be compared, such as the same load on different strategies.
type Group struct {
	Title string // may be empty
	Runs  []*loadtest.Result
}

// A Page is the input of WriteHTML.
type Page struct {
	Title  string // empty: that of the first run
	Lang   string // words.English, words.Chinese; empty: English
	Groups []Group
	Commit string   // of the judging program; empty: unknown
	Notes  []string // remarks at the top, such as that a history was cut off
}

// The largest numbers of holds and lanes that are drawn of a run, alone on a page and among others.
const (
	holdsAlone, lanesAlone = 400, 60
	holdsBeside, lanesMany = 90, 30
	detailed               = 40 // runs of a page that are shown in detail; the others are in the tables
)

// WriteHTML writes a self-contained page: it opens from disk, makes no network requests, and follows the reader's
// choice of light or dark.
func WriteHTML(w io.Writer, p Page) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	say := voice(p.Lang)
	t, err := template.New("page.html.tmpl").Funcs(template.FuncMap{
		"millis":    millis,
		"say":       say.say,
		"in":        say.in,
		"outcome":   say.outcome,
		"thousands": grouped,
		"percent": func(part, whole int) string {
			return fmt.Sprintf("%.1f %%",
				100*float64(part)/float64(max(whole, 1)))
		},
	}).ParseFS(files, "page.html.tmpl", "head.html.tmpl", "run.html.tmpl", "held.html.tmpl", "compare.html.tmpl")
	if err != nil {
		return err
	}
	return t.Execute(w, p.view())
}

// A pageHead is what the head and the foot of every page need.
type pageHead struct {
	Lang     string // for the browser
	Title    string
	Commit   string
	Style    template.CSS
	Patterns template.HTML
}

// newHead returns the head of a page. commit is that of the judging program; empty: unknown.
func newHead(lang, title, commit string) pageHead {
	h := pageHead{
		Lang: "en", Title: title, Commit: commit,
		Style:    template.CSS(read("page.css")),
		Patterns: template.HTML(read("patterns.svg")),
	}
	if commit == "" {
		h.Commit = voice(lang).say("report.unknown")
	}
	if lang == words.Chinese {
		h.Lang = "zh-CN"
	}
	return h
}

type pageView struct {
	pageHead
	Notes   []string
	Groups  []groupView
	Single  *runView   // the only run
	Summary *summary   // of several runs
	Race    []*runView // the run that lost most, and one with the same load that lost nothing
}

type groupView struct {
	Title   string
	Compare *compareView
	Runs    []*runView
	LeftOut int // runs not shown in detail
}

// runs returns the runs of all groups.
func (p Page) runs() (all []*loadtest.Result) {
	for _, g := range p.Groups {
		all = append(all, g.Runs...)
	}
	return all
}

func (p Page) view() pageView {
	v := pageView{pageHead: newHead(p.Lang, p.Title, p.Commit), Notes: p.Notes}
	say, runs := voice(p.Lang), p.runs()
	if len(runs) == 1 {
		v.Single = newRunView(say, runs[0], "r", limits{holdsAlone, lanesAlone})
		v.Title = cmp.Or(v.Title, v.Single.Heading)
		return v
	}
	v.Title = cmp.Or(v.Title, say.say("page.runs", "n", len(runs)))
	v.Summary = p.summary()
	room := detailed
	for n, g := range p.Groups {
		gv := groupView{Title: g.Title, Compare: newCompareView(say, g.Runs)}
		for i, r := range g.Runs {
			if room == 0 {
				gv.LeftOut = len(g.Runs) - i
				break
			}
			room--
			gv.Runs = append(gv.Runs,
				newRunView(say, r, fmt.Sprintf("g%dr%d", n, i), limits{holdsBeside, lanesMany}))
		}
		v.Groups = append(v.Groups, gv)
	}
	v.Race = race(v.Groups)
	return v
}

// race returns, of the first group with a race, the run that oversold and lost most, and the cure: among the runs of
// the same group, load and store that lost nothing, the one with the strongest promise. Both are drawn on the same
// axes. It returns only the first if no run kept a promise to lose nothing, and nil if no run lost anything.
func race(groups []groupView) []*runView {
	damage := func(v *runView) int64 { return v.V.OversoldUnits + max(v.V.LostUnits, 0) }
	for _, g := range groups {
		var worst, cure *runView
		for _, r := range g.Runs {
			if r.V.RaceSeen && r.Stock != "" && (worst == nil || damage(r) > damage(worst)) {
				worst = r
			}
		}
		if worst == nil {
			continue
		}
		for _, r := range g.Runs {
			if r.V.Finding == loadtest.Holds && promisedHere(r.R) && r.Stock != "" &&
				sameLoad(&r.R.Plan, &worst.R.Plan) && (cure == nil || strength(r.R) > strength(cure.R)) {
				cure = r
			}
		}
		return beside(worst, cure)
	}
	return nil
}

// sameLoad reports whether two runs sent the same requests to the same store.
func sameLoad(p, q *loadtest.Plan) bool {
	return p.Store == q.Store && p.Stock == q.Stock && p.Requests == q.Requests && p.Duration == q.Duration &&
		p.Concurrency == q.Concurrency && p.Rate == q.Rate
}

// beside draws two runs on the same axes. There may be no second.
func beside(worst, cure *runView) []*runView {
	pair := []*runView{worst}
	if cure != nil {
		pair = append(pair, cure)
	}
	axes := newFrame()
	for _, r := range pair {
		axes.hold(r.Course.truth, r.Course.written, r.Course.read)
	}
	for _, r := range pair {
		r.Beside = stockChart(r.voice, r.Course, axes)
	}
	return pair
}

// strength ranks strategies by their promises: first, that a holder with an expired lease cannot write; then, that it
// is a lock; then, the promises to waiters.
func strength(r *loadtest.Result) int {
	n := 0
	for _, is := range []bool{
		r.Strategy.Promise.Scope == loadtest.Cluster, r.Strategy.Promise.Fenced, r.Strategy.Promise.Exclusive,
		r.Strategy.Promise.Fair, r.Strategy.Promise.Blocking,
	} {
		if n *= 2; is {
			n++
		}
	}
	return n
}

func read(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(text)
}

// load describes the load of a run.
func load(r *loadtest.Result) words.Text {
	p := &r.Plan
	parts := []words.Text{phrases.Say("count.request", "n", thousands(int64(len(r.Records))))}
	if p.Open() {
		parts = append(parts, phrases.Say("load.open", "rate", p.Rate))
	} else {
		parts = append(parts, phrases.Say("load.closed", "n", thousands(int64(p.Concurrency))))
	}
	if p.SKUs > 1 {
		parts = append(parts, phrases.Say("load.stocks", "n", thousands(p.Stock), "skus", p.SKUs))
	} else {
		parts = append(parts, phrases.Say("load.stock", "n", thousands(p.Stock)))
	}
	if p.Duration > 0 {
		parts = append(parts, phrases.Say("load.for", "duration", p.Duration))
	}
	return words.Join(parts, phrases.Say("comma"))
}

func (v voice) when(t time.Time) string {
	switch {
	case t.IsZero():
		return v.say("report.unknown")
	case v == words.Chinese:
		return t.UTC().Format("2006-01-02 15:04:05 UTC")
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
	voice
	ID, Heading, Load, When   string
	R                         *loadtest.Result
	V                         *loadtest.Verdict
	Word, Class, Plain        string // the verdict: as a word, as a CSS class, as a sentence
	Linear, Looked            string
	Stock                     template.HTML
	Beside                    template.HTML // the stock on the axes of another run
	Course                    *course
	Names, Bars               template.HTML
	T                         *timeline
	Pairs                     []string
	MorePairs                 bool
	Promise                   string
	Mapped                    bool // of a foreign API, which reports no versions
	TimelineNotes, StockNotes []string
	Outcomes                  []outcomeRow
	Shares                    []shareRow
	Command, Summary          string
	Failures                  []words.Text
	IDs                       []string // order ids that are shown as #1, #2 and so on
	nick                      *strings.Replacer
	OverTime                  []template.HTML // of an open loop
	Commands                  []string
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

func newRunView(say voice, r *loadtest.Result, id string, most limits) *runView {
	v := &runView{
		voice:   say,
		ID:      id,
		Heading: say.in(named(r)),
		Load:    say.in(load(r)),
		When:    say.when(r.StartedAt),
		R:       r,
		V:       &r.Verdict,
		Command: r.Command,
		Summary: r.Strategy.Summary,

		Commands: say.said(commands(r)),
	}
	v.Word, v.Class, v.Plain = say.judged(r)
	v.Promise = say.promised(&r.Strategy.Promise)
	v.Mapped = slices.ContainsFunc(r.Accounts, func(a loadtest.Account) bool { return a.Before.Mapped })
	v.Linear = say.in(r.Verdict.Linear.Sentence())
	if !r.Verdict.LookedAt.IsZero() {
		v.Looked = say.say("page.looked", "until", looked(&r.Verdict, string(say)))
	}
	v.T = lay(say, r, most)
	v.nicknames()
	v.timeline()
	v.stock()
	v.latency()
	v.overTime()
	for _, s := range r.Latency.Instances {
		all := float64(max(len(r.Records), 1))
		v.Shares = append(v.Shares, shareRow{
			say.in(instance(s.Instance)),
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
func (say voice) judged(r *loadtest.Result) (word, class, plain string) {
	v := &r.Verdict
	switch {
	case v.Finding == loadtest.Undecided:
		return say.say("judged.undecided"), "odd", say.say("plain.undecided")
	case v.Finding == loadtest.Holds:
		plain = say.say("plain.holds", "initial", thousands(v.InitialUnits), "sold", thousands(v.AcceptedUnits),
			"left", thousands(v.RemainingUnits))
		switch {
		case !promisedHere(r):
			return say.say("judged.luck"), "odd", plain + say.say("plain.luck")
		case unfenced(r):
			return say.say("judged.unfenced"), "good", plain + say.say("plain.unfenced")
		}
		return say.say("judged.holds"), "good", plain
	}
	word, class = say.say("judged.broken"), "bad"
	if v.Kept {
		class = "raced" // as expected
	}
	switch {
	case v.OversoldUnits > 0:
		plain = say.say("plain.oversold", "sold", thousands(v.AcceptedUnits), "initial", thousands(v.InitialUnits),
			"n", thousands(v.OversoldUnits))
	case v.Known && v.LostUnits > 0:
		plain = say.say("plain.lost", "sold", thousands(v.AcceptedUnits),
			"gone", thousands(v.InitialUnits-v.RemainingUnits), "n", thousands(v.LostUnits))
	case v.Known && v.LostUnits < 0:
		plain = say.say("plain.vanished", "n", thousands(-v.LostUnits))
	default:
		plain = say.say("plain.contradiction")
	}
	return word, class, plain
}

// promisedHere reports whether the strategy promises to lose nothing on the instances that sold.
func promisedHere(r *loadtest.Result) bool {
	switch r.Strategy.Promise.Scope {
	case loadtest.Nowhere:
		return false
	case loadtest.Process:
		return r.Verdict.Instances <= 1
	}
	return true
}

// unfenced reports whether the strategy is a lock whose holder can still write after it has lost the lock.
func unfenced(r *loadtest.Result) bool {
	p := &r.Strategy.Promise
	return p.Scope == loadtest.Cluster && p.Exclusive && !p.Fenced
}

// longID is the length from which on an order id is shown as a number.
const longID = 12

// nicknames numbers the orders in order of appearance on the page.
func (v *runView) nicknames() {
	var pairs []string
	add := func(id string) {
		if len(id) >= longID && !slices.Contains(v.IDs, id) {
			v.IDs = append(v.IDs, id)
			pairs = append(pairs, id, "#"+strconv.Itoa(len(v.IDs)))
		}
	}
	for _, c := range v.V.Certificates {
		add(c.Orders[0].OrderID)
		add(c.Orders[1].OrderID)
	}
	for _, p := range v.T.shown {
		add(p.first.rec.OrderID)
		add(p.second.rec.OrderID)
	}
	v.nick = strings.NewReplacer(pairs...)
}

// Nick returns a text with the numbers of orders in place of their ids.
func (v *runView) Nick(text string) string { return v.nick.Replace(text) }

func (v *runView) timeline() {
	t := v.T
	note := func(key string, pairs ...any) {
		v.TimelineNotes = append(v.TimelineNotes, phrases.Say("note."+key, pairs...).In(string(v.voice)))
	}
	if t.missing > 0 {
		note("no-times", "n", thousands(int64(t.missing)))
	}
	if len(t.bars) == 0 {
		note("no-holds")
		return
	}
	names, bars := t.gantt()
	v.Names, v.Bars = template.HTML(names), template.HTML(bars)
	if t.inWindow < t.total {
		key := "thinned"
		if t.Overlaps > 0 {
			key = "thinned-around"
		}
		note(key, "drawn", thousands(int64(len(t.bars))), "n", thousands(int64(t.total)), "from", millis(t.from),
			"to", millis(t.to), "length", millis(t.length))
	}
	if t.lanesLeft > 0 {
		note("lanes-left", "n", thousands(int64(t.lanesLeft)))
	}
	note("clocks")
	v.MorePairs = t.Overlaps > len(t.shown)
	for _, p := range t.shown {
		v.Pairs = append(v.Pairs, v.Nick(v.in(p.sentence())))
	}
}

func (v *runView) stock() {
	c := follow(v.R, v.T.story)
	v.Course = c
	if len(c.truth) < 2 {
		return
	}
	axes := newFrame()
	axes.hold(c.truth, c.written, c.read)
	v.Stock = stockChart(v.voice, c, axes)
	note := func(key string, pairs ...any) {
		v.StockNotes = append(v.StockNotes, phrases.Say("note."+key, pairs...).In(string(v.voice)))
	}
	if c.others > 0 {
		note("one-of", "n", c.others+1, "sku", c.sku)
	}
	if c.parts {
		note("parts")
	}
	if len(c.read) > 0 {
		note("drawn-when")
	}
	if n := len(c.read); n > len(thin(c.read)) {
		note("thinned-sales", "n", thousands(int64(n)))
	}
}

// latency fills in the latencies of the outcomes that occurred, in the usual order.
func (v *runView) latency() {
	for _, o := range loadtest.Outcomes() {
		if q, occurred := v.R.Latency.ByOutcome[o]; occurred {
			v.Outcomes = append(v.Outcomes, outcomeRow{o, q})
		}
	}
}

// promised describes the promise of a strategy, as far as a load run can check it.
func (v voice) promised(p *loadtest.Promise) string {
	text := v.say("promised.nothing")
	switch p.Scope {
	case loadtest.Process:
		text = v.say("promised.process")
	case loadtest.Cluster:
		text = v.say("promised.cluster")
	}
	for _, more := range []struct {
		is  bool
		key string
	}{{p.Exclusive, "exclusive"}, {p.Fenced, "fenced"}, {p.Fair, "fair"}, {p.Blocking, "blocking"}} {
		if more.is {
			text += v.say("semicolon") + v.say("promised."+more.key)
		}
	}
	return text
}
