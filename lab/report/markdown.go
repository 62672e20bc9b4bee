package report

import (
	"bufio"
	_ "embed" // for the head of the file
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

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

var (
	durations = regexp.MustCompile(`(\d+(\.\d+)?(h|m|s|ms|µs|ns))+\b`)
	fences    = regexp.MustCompile(`(fence(?: that the store has seen is| 是)?) (\d+)\b`)
	instances = regexp.MustCompile(`\bapp-\d+\b`)
	skus      = regexp.MustCompile(`\blab-[a-z0-9-]+-\d+\b`)
	addresses = regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`)
	sessions  = regexp.MustCompile(`0x[0-9a-f]{6,}`)
	orders    = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b[0-9a-f]{16,}\b`)
)

// Generic removes irrelevant differences between runs from evidence, so that a file under version control changes only
// with the findings. It numbers fencing tokens by size and instances by appearance, and rounds times.
func Generic(lines []string) []string {
	var seen []int64
	var names []string
	for _, line := range lines {
		for _, m := range fences.FindAllStringSubmatch(line, -1) {
			if n, err := strconv.ParseInt(m[2], 10, 64); err == nil && !slices.Contains(seen, n) {
				seen = append(seen, n)
			}
		}
		for _, name := range instances.FindAllString(line, -1) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(seen)
	out := make([]string, len(lines))
	for i, line := range lines {
		line = fences.ReplaceAllStringFunc(line, func(text string) string {
			m := fences.FindStringSubmatch(text)
			n, _ := strconv.ParseInt(m[2], 10, 64)
			return fmt.Sprintf("%s no. %d", m[1], slices.Index(seen, n)+1)
		})
		line = instances.ReplaceAllStringFunc(
			line, func(name string) string { return fmt.Sprintf("app-%d", slices.Index(names, name)+1) },
		)
		line = skus.ReplaceAllString(line, "SKU")
		line = addresses.ReplaceAllString(line, "127.0.0.1:PORT")
		line = sessions.ReplaceAllString(line, "ID")
		line = orders.ReplaceAllString(line, "ID")
		out[i] = durations.ReplaceAllStringFunc(line, about)
	}
	return out
}

// about rounds a time so coarsely that most runs agree. Whole seconds are settings and stay.
func about(text string) string {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d%time.Second == 0:
		return text
	case d < time.Second/2:
		return "less than 500ms"
	case d < 5*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(5 * time.Second).String()
}
