package report

import (
	"bufio"
	_ "embed" // for the head of the file
	"fmt"
	"io"
	"strings"

	"example.com/stock/lab"
)

//go:embed failure-modes.head.md
var head string

// WriteMarkdown writes the matrix of a whole run. The evidence is on the run's page: see WriteHTML.
func (m Matrix) WriteMarkdown(w io.Writer) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	b.WriteString(head)
	for _, o := range lab.Outcomes() {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", bold(o, o.Word().EN), o.Word().ZH, o.Means().EN, o.Means().ZH)
	}
	for _, t := range m.tables(false) {
		fmt.Fprintf(b, "\n## %s. %s / %s\n\n", t.Group, t.Group.Name().EN, t.Group.Name().ZH)
		t.markdown(b)
	}
	return b.Flush()
}

// bilingual returns a text of the catalogue in both languages on one line.
func bilingual(key string) string {
	text := phrases.Say(key)
	return text.EN + " / " + text.ZH
}

func (t *table) markdown(b *bufio.Writer) {
	columns := t.Strategies
	if t.HasCode {
		columns = append([]string{bilingual("markdown.code")}, columns...)
	}
	fmt.Fprintf(b, "| %s | %s | %s |\n|---|---|%s\n", bilingual("markdown.failure"), bilingual("markdown.variant"),
		strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, row := range t.Rows {
		title := ""
		if row.First {
			title = fmt.Sprintf("<a id=%q></a>%s<br>%s<br>`%[1]s`", row.Scenario.Name, row.Scenario.Title.EN,
				row.Scenario.Title.ZH)
		}
		fmt.Fprintf(b, "| %s | %s |", title, row.Variant.EN)
		if t.HasCode {
			var lines []string
			for _, e := range row.Code {
				lines = append(lines, e.Case.String()+": "+e.outcome())
			}
			fmt.Fprintf(b, " %s |", strings.Join(lines, "<br>"))
		}
		for _, e := range row.Cells {
			fmt.Fprintf(b, " %s |", e.outcome())
		}
		b.WriteString("\n")
	}
}

func (e *entry) outcome() string {
	if e == nil {
		return ""
	}
	return bold(e.Cell.Observed, e.Word().EN)
}

// bold marks harm without the help of colours.
func bold(o lab.Outcome, text string) string {
	if class(o) == "bad" {
		return "**" + text + "**"
	}
	return text
}
