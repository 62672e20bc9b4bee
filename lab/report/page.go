package report

import (
	"embed"
	"html/template"
	"io"
	"slices"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
)

//go:embed page.html.tmpl page.css
var files embed.FS

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// WriteHTML writes a page about a whole or partial run: the matrix, and the evidence and a diagram of every case. The
// page needs no network. lang is its initial language, en or zh; the reader can change it.
func (m Matrix) WriteHTML(w io.Writer, lang string) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	text, err := files.ReadFile("page.html.tmpl")
	if err != nil {
		return err
	}
	t, err := diagram.ParsePage(string(text), template.FuncMap{"class": class})
	if err != nil {
		return err
	}
	style, err := files.ReadFile("page.css")
	if err != nil {
		return err
	}
	v := view{
		When:     m.Run.StartedAt.Format("2006-01-02 15:04 UTC"),
		Took:     m.Run.TookMS / 1000,
		Wrong:    len(m.Run.Wrong()),
		Skipped:  len(m.Run.Skipped()),
		Cells:    len(m.Run.Cells),
		Outcomes: lab.Outcomes(),
	}
	v.Right = v.Cells - v.Wrong - v.Skipped
	v.Tables = m.tables(true)
	for _, table := range v.Tables {
		for _, row := range table.Rows {
			if row.First {
				v.Articles = append(v.Articles, m.newArticle(row.Scenario, v.Cells, lang))
			}
		}
	}
	title := "The fault lab"
	if len(v.Articles) == 1 {
		title = v.Articles[0].Scenario.Name
	}
	v.Head = diagram.NewHead(title, lang, string(style), start)
	return t.Execute(w, v)
}

// start makes each figure steppable, and makes the keys step a pair together.
const start = `
for (const pair of document.querySelectorAll(".pair")) {
  const both = [...pair.querySelectorAll("figure.steps")].map(figure => steps(figure, { keys: false }));
  pair.addEventListener("keydown", event => {
    const moves = { ArrowRight: s => s.next(), ArrowLeft: s => s.back(), Home: s => s.step(0), End: s => s.step(1e6) };
    const move = event.altKey || event.ctrlKey || event.metaKey ? null : moves[event.key];
    if (move) {
      event.preventDefault();
      both.forEach(move);
    }
  });
}
for (const figure of document.querySelectorAll("figure.steps:not(.live)")) steps(figure);
`

type view struct {
	Head                         diagram.Head
	When                         string
	Took                         float64
	Cells, Right, Wrong, Skipped int
	Outcomes                     []lab.Outcome
	Tables                       []table
	Articles                     []article
}

// An article is a scenario.
type article struct {
	Scenario lab.Scenario
	Parts    [4]struct{ Name, Text lab.Text }
	Pair     []exhibit // two cases side by side, with harm and without; may be empty
	Cases    []exhibit
}

// An exhibit is a case.
type exhibit struct {
	*entry
	Open   bool
	From   *lab.Text // part of the promise that predicts the outcome; nil: the scenario states it
	Steps  template.HTML
	fences map[string]string // their ranks
}

// Verdict returns what was seen, and what was predicted if that differs.
func (e exhibit) Verdict() lab.Text {
	word, c := e.Word(), e.Cell
	switch {
	case c.Skipped != "":
		return phrases.Say("verdict.because", "word", word, "reason", c.Skipped)
	case c.Failed != "":
		failed, _, _ := strings.Cut(c.Failed, "\n")
		return phrases.Say("verdict.because", "word", word, "reason", failed)
	case c.AsPredicted:
		return phrases.Say("verdict.as-predicted", "word", word)
	}
	return phrases.Say("verdict.contradicted", "word", word, "predicted", c.Predicted)
}

// shownAtOnce is the largest number of cases that a page shows expanded.
const shownAtOnce = 12

func (m Matrix) newArticle(s lab.Scenario, cells int, lang string) article {
	a := article{Scenario: s, Parts: s.Parts()}
	for _, e := range m.entries(s) {
		if !e.Known {
			continue
		}
		x := exhibit{entry: e, Open: cells <= shownAtOnce || e.Class() == "wrong", fences: diagram.Ranks(e.Cell)}
		if e.Cell.Predicted.From != "" {
			x.From = new(e.Cell.Predicted.Basis())
		}
		if len(e.Cell.Events) > 0 {
			x.Steps = diagram.Of(e.Cell).Figure(lang)
		}
		a.Cases = append(a.Cases, x)
	}
	a.Pair = pair(a.Cases)
	return a
}

// pair returns two cases of a scenario to show side by side: the lab's naive and fixed code, or the first case with
// harm and the first without. It may return none.
func pair(cases []exhibit) []exhibit {
	first := func(fits func(exhibit) bool) int {
		return slices.IndexFunc(cases, func(x exhibit) bool { return x.Steps != "" && x.Cell.AsPredicted && fits(x) })
	}
	for _, which := range [][2]func(exhibit) bool{
		{
			func(x exhibit) bool { return x.Case.Code == "naive" },
			func(x exhibit) bool { return x.Case.Code == "fixed" },
		},
		{
			func(x exhibit) bool { return class(x.Cell.Observed) == "bad" },
			func(x exhibit) bool { return class(x.Cell.Observed) == "good" },
		},
		{
			func(x exhibit) bool { return class(x.Cell.Observed) == "bad" },
			func(x exhibit) bool { return class(x.Cell.Observed) != "bad" },
		},
	} {
		if bad, good := first(which[0]), first(which[1]); bad >= 0 && good >= 0 {
			return []exhibit{cases[bad], cases[good]}
		}
	}
	return nil
}

// Ranked writes a text in both languages. It replaces long fencing tokens by their ranks, and puts the tokens into
// titles.
func (e exhibit) Ranked(t lab.Text) template.HTML {
	return template.HTML(diagram.ReplaceFences(diagram.Spoken("span", t), func(number string) string {
		rank, ok := e.fences[number]
		if !ok {
			return number
		}
		return `<abbr title="` + number + `">` + rank + `</abbr>`
	}))
}
