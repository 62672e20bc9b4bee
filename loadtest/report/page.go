// Package report shows runs of the load test: as one page of HTML that needs no network, as pictures for slides, as tables for other programs, and side by side.
// Everything in it is computed from Results, and so from histories, at any time later.
package report

import (
	"embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

//go:embed page.html.tmpl run.html.tmpl compare.html.tmpl diff.html.tmpl page.css patterns.svg
var files embed.FS

// A Group is runs that can be compared: the same load on different strategies, say.
type Group struct {
	Title string // may be empty
	Runs  []*loadtest.Result
}

// A Page is what WriteHTML writes.
type Page struct {
	Title  string // empty: of the first run
	Groups []Group
	Notes  []string // what the reader should know first: a history was cut off, say
	Diff   *Comparison
}

// What is drawn of a run on a page of its own, and on a page of many.
const (
	holdsAlone, lanesAlone = 400, 60
	holdsBeside, lanesMany = 90, 24
	detailed               = 40 // runs of a page that are shown in detail; the others are in the tables
)

// WriteHTML writes a page that holds all it needs: it opens from disk, asks no server for anything, and follows the reader's choice of light or dark.
func WriteHTML(w io.Writer, p Page) error {
	t, err := template.New("page.html.tmpl").Funcs(template.FuncMap{
		"millis": millis, "words": words[loadtest.Outcome], "thousands": grouped,
		"percent": func(part, whole int) string { return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(whole, 1))) },
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
	v := pageView{Title: p.Title, Style: template.CSS(read("page.css")), Patterns: template.HTML(read("patterns.svg")), Notes: p.Notes, Diff: p.Diff}
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
	// The last groups matter most: those before lead up to them.
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
		panic(err) // it was there when the program was built
	}
	return string(text)
}

func escape(text string) string { return html.EscapeString(text) }

// heading says in a line what a run was.
func heading(r *loadtest.Result) string {
	text := r.Plan.Strategy
	if r.Plan.Store != "" {
		text += " on " + r.Plan.Store
	}
	return text
}

// load says what was asked of the service.
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

// grouped is thousands for whatever integers a template has.
func grouped(n any) (string, error) {
	switch n := n.(type) {
	case int:
		return thousands(int64(n)), nil
	case int64:
		return thousands(n), nil
	}
	return "", fmt.Errorf("%T is no number to show", n)
}
