package report

import (
	"embed"
	"fmt"
	"html"
	"html/template"
	"io"
	"strings"

	"example.com/stock/lab"
)

//go:embed page.html.tmpl page.css
var files embed.FS

// WriteHTML writes a page about a run, whole or in part, that needs no network: the matrix, and of every case the evidence and a timeline. lang is
// the language that it opens in, en or zh; the reader can change it.
func WriteHTML(w io.Writer, r lab.Report, lang string) error {
	t, err := template.New("page.html.tmpl").Funcs(template.FuncMap{"both": both, "add": func(i int) int { return i + 1 }, "since": func(e lab.Event, c lab.Cell) string {
		return since(e.At.Sub(c.Events[0].At))
	}}).ParseFS(files, "*.tmpl")
	if err != nil {
		return err
	}
	style, err := files.ReadFile("page.css")
	if err != nil {
		return err
	}
	v := view{
		Style: template.CSS(style), Chinese: lang == "zh", When: r.StartedAt.Format("2006-01-02 15:04 UTC"), Took: r.TookMS / 1000,
		Wrong: len(r.Wrong()), Skipped: len(r.Skipped()), Cells: len(r.Cells), Meanings: meanings(),
	}
	v.Right = v.Cells - v.Wrong - v.Skipped
	v.Tables = tables(r, true)
	for _, table := range v.Tables {
		for _, row := range table.Rows {
			if row.First {
				v.Articles = append(v.Articles, newArticle(r, row.Scenario, v.Cells))
			}
		}
	}
	v.Title = "The fault lab"
	if len(v.Articles) == 1 {
		v.Title = v.Articles[0].Scenario.Name
	}
	return t.Execute(w, v)
}

type view struct {
	Title                        string
	Style                        template.CSS
	Chinese                      bool
	When                         string
	Took                         float64
	Cells, Right, Wrong, Skipped int
	Meanings                     []meaning
	Tables                       []table
	Articles                     []article
}

// An article is a scenario.
type article struct {
	Scenario lab.Scenario
	Parts    []part
	Cases    []exhibit
}

// An exhibit is a case.
type exhibit struct {
	*entry
	Open         bool
	From         string
	Names, Story template.HTML
	Least        int
	Legend       []legend
}

// Verdict says what was seen, and what was predicted if that is another thing.
func (e exhibit) Verdict() lab.Text {
	word, c := e.Word(), e.Cell
	switch {
	case c.Skipped != "":
		return lab.Text{EN: word.EN + ": " + c.Skipped, ZH: word.ZH + "：" + c.Skipped}
	case c.Failed != "":
		failed, _, _ := strings.Cut(c.Failed, "\n")
		return lab.Text{EN: word.EN + ": " + failed, ZH: word.ZH + "：" + failed}
	case c.AsPredicted:
		return lab.Text{EN: word.EN + ", as predicted", ZH: word.ZH + "，与预测一致"}
	}
	return lab.Text{EN: fmt.Sprintf("%s, BUT PREDICTED: %s", word.EN, c.Predicted), ZH: fmt.Sprintf("%s，但预测为 %s", word.ZH, c.Predicted)}
}

// shownAtOnce is how many cases a page may have for all to be open.
const shownAtOnce = 12

func newArticle(r lab.Report, s lab.Scenario, cells int) article {
	a := article{Scenario: s, Parts: parts(s)}
	for _, e := range entries(r, s) {
		if !e.Known {
			continue
		}
		x := exhibit{entry: e, Open: cells <= shownAtOnce || e.Class() == "wrong", From: e.Cell.Predicted.From}
		if len(e.Cell.Events) > 0 {
			names, picture, least := timeline(e.Cell)
			x.Names, x.Story, x.Least = template.HTML(names), template.HTML(picture), least
			x.Legend = legendOf(e.Cell)
			e.Cell.Events = fold(e.Cell.Events)
		}
		a.Cases = append(a.Cases, x)
	}
	return a
}

// both writes a text in both languages; the page shows one.
func both(t lab.Text) template.HTML { return template.HTML(spoken("span", t)) }

// spoken writes a text in both languages into elements of that name, or once where they do not differ.
func spoken(element string, t lab.Text) string {
	if t.EN == t.ZH {
		return html.EscapeString(t.EN)
	}
	return fmt.Sprintf(`<%[1]s lang="en">%[2]s</%[1]s><%[1]s lang="zh">%[3]s</%[1]s>`, element, html.EscapeString(t.EN), html.EscapeString(t.ZH))
}
