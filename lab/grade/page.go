package grade

import (
	_ "embed"
	"html/template"
	"io"
	"path"

	"example.com/stock/internal/words"
	"example.com/stock/lab/diagram"
)

//go:embed page.html.tmpl
var pageText string

//go:embed page.css
var pageStyle string

// start makes each figure steppable.
const start = `
for (const figure of document.querySelectorAll("figure.steps:not(.live)")) steps(figure);
`

// WriteHTML writes a page with the grades, and with a step diagram of each failure. It needs no network. lang is its
// initial language, en or zh; the reader can change it. root is the way from the page to the root of the repository,
// for links to the lessons; if it is empty, the page only names them.
func WriteHTML(w io.Writer, r Report, lang, root string) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	t, err := diagram.ParsePage(pageText, template.FuncMap{
		"say": func(key string) template.HTML { return diagram.Both(say(key)) },
	})
	if err != nil {
		return err
	}
	page := view{
		Head: diagram.NewHead(r.Lock, lang, pageStyle, start), Lock: r.Lock, Sum: r.summary(),
		When: r.StartedAt.Format("2006-01-02 15:04 UTC"),
	}
	for _, result := range r.Results {
		x := entry{Result: result, Lesson: lesson(result.Read)}
		if root != "" {
			x.Link = lesson(path.Join(root, result.Read))
		}
		if found, err := Find(result.Scenario); err == nil {
			x.Title, x.Forced = found[0].Title(), found[0].Forced()
		}
		if result.Grade.Failed() && len(result.Cell.Events) > 0 {
			x.Steps = diagram.Of(result.Cell).Figure(lang)
		}
		page.Entries = append(page.Entries, x)
	}
	return t.Execute(w, page)
}

type view struct {
	Head       diagram.Head
	Lock, When string
	Sum        words.Text
	Entries    []entry
}

// An entry is one scenario of the page.
type entry struct {
	Result
	Title, Forced words.Text
	Lesson, Link  words.Text    // its name, and where its link leads
	Steps         template.HTML // only of a failure
}
