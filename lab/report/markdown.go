package report

import (
	"bufio"
	_ "embed" // for the head of the file
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lab"
)

//go:embed failure-modes.head.md
var head string

// WriteMarkdown writes the matrix and the evidence of a whole run, without details that differ from run to run.
func (m Matrix) WriteMarkdown(w io.Writer) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	b.WriteString(head)
	for _, o := range lab.Outcomes() {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", bold(o, o.Word().EN), o.Word().ZH, o.Means().EN, o.Means().ZH)
	}
	list := m.tables(false)
	for _, t := range list {
		fmt.Fprintf(b, "\n## %s. %s / %s\n\n", t.Group, t.Group.Name().EN, t.Group.Name().ZH)
		t.markdown(b)
	}
	note := phrases.Say("markdown.rounded")
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n%s\n", bilingual("markdown.evidence"), note.EN, note.ZH)
	for _, t := range list {
		for _, row := range t.Rows {
			if row.First {
				m.prove(b, row.Scenario)
			}
		}
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
			title = fmt.Sprintf("[%s](#%s)<br>%s", row.Scenario.Title.EN, row.Scenario.Name, row.Scenario.Title.ZH)
		}
		fmt.Fprintf(b, "| %s | %s |", title, row.Variant.EN)
		if t.HasCode {
			var lines []string
			for _, e := range row.Code {
				lines = append(lines, e.Case.String()+": "+e.link())
			}
			fmt.Fprintf(b, " %s |", strings.Join(lines, "<br>"))
		}
		for _, e := range row.Cells {
			fmt.Fprintf(b, " %s |", e.link())
		}
		b.WriteString("\n")
	}
}

func (e *entry) link() string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("[%s](#%s)", bold(e.Cell.Observed, e.Word().EN), e.Anchor)
}

// bold marks harm without the help of colours.
func bold(o lab.Outcome, text string) string {
	if class(o) == "bad" {
		return "**" + text + "**"
	}
	return text
}

// prove writes the texts of a scenario and the evidence of each case.
func (m Matrix) prove(b *bufio.Writer, s lab.Scenario) {
	fmt.Fprintf(b, "\n<a id=%q></a>\n\n### %s / %s\n\n`bin/stock lab run %s`\n\n", s.Name, s.Title.EN, s.Title.ZH,
		s.Name)
	for _, part := range s.Parts() {
		fmt.Fprintf(b, "- %s: %s\n", part.Name.EN, part.Text.EN)
	}
	b.WriteString("\n<details><summary>中文</summary>\n\n")
	for _, part := range s.Parts() {
		fmt.Fprintf(b, "- %s：%s\n", part.Name.ZH, part.Text.ZH)
	}
	b.WriteString("\n</details>\n\n")
	for _, e := range m.entries(s) {
		from := "by the scenario"
		if e.Cell.Predicted.From != "" {
			from = "by its promise " + e.Cell.Predicted.From
		}
		fmt.Fprintf(b, "- <a id=%q></a>%s: %s, as predicted (%s)\n", e.Anchor, e.Case,
			bold(e.Cell.Observed, e.Word().EN), from)
		for _, line := range Generic(facts(e.Cell)) {
			fmt.Fprintf(b, "  - %s\n", plain.Replace(line))
		}
	}
}

// crowded is the largest number of replies that are listed one by one.
const crowded = 6

// facts returns the evidence of a cell. More than crowded replies are only counted, because the order of many customers
// differs from run to run.
func facts(c lab.Cell) []string {
	var all, lines, answers []string
	told := make(map[string]int)
	for _, proof := range c.Evidence {
		all = append(all, proof.Text)
		if proof.Kind == lab.Answer {
			answers = append(answers, proof.Text)
			_, what, _ := strings.Cut(proof.Text, ": ")
			what, _, _ = strings.Cut(what, ",")
			told[what]++
			continue
		}
		lines = append(lines, proof.Text)
	}
	if len(answers) <= crowded {
		return all
	}
	for _, what := range slices.Sorted(maps.Keys(told)) {
		lines = append(lines, fmt.Sprintf("%d of %d customers: %s", told[what], len(answers), what))
	}
	return lines
}

// plain escapes what Markdown would read as markup.
var plain = strings.NewReplacer("\n", " ", "*", `\*`, "_", `\_`, "<", "&lt;", "|", `\|`)

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
