package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
	"example.com/stock/lab/report"
)

// A figure is a diagram in a lesson: a case of the lab, drawn between <!-- diagram: SCENARIO SUBJECT --> and <!--
// /diagram -->. Where a subject has several variants, --variant and its name in English may
// follow; otherwise it is the first.
type figure struct{ scenario, subject, variant string }

var figures = regexp.MustCompile(`(?s)<!-- diagram: ([^\n]*?) -->\n(.*?)<!-- /diagram -->`)

func parseFigure(text string) (f figure, err error) {
	words, variant, _ := strings.Cut(text, " --variant ")
	parts := strings.Fields(words)
	if len(parts) != 2 {
		return f, fmt.Errorf("diagram: %q is not SCENARIO SUBJECT", text)
	}
	return figure{parts[0], parts[1], variant}, nil
}

// of reports whether a cell is of the case.
func (f figure) of(c lab.Cell) bool {
	return c.Scenario == f.scenario && c.Case().Subject() == f.subject && c.AsPredicted && len(c.Events) > 0 &&
		(f.variant == "" || c.Variant == f.variant)
}

var numbered = regexp.MustCompile(`\b(app|redis|lab-[a-z0-9-]+)-\d+\b`)

// draw returns what stands in a lesson. Names have numbers by appearance, because a run counts on from case to case.
func draw(c lab.Cell, lang string) string {
	names, counts := make(map[string]string), make(map[string]int)
	text := numbered.ReplaceAllStringFunc(diagram.Of(c).Mermaid(lang), func(name string) string {
		kind := name[:strings.LastIndexByte(name, '-')]
		if names[name] == "" {
			counts[kind]++
			names[name] = fmt.Sprintf("%s-%d", kind, counts[kind])
		}
		return names[name]
	})
	return "```mermaid\n" + text + "```\n"
}

// With LAB_REPORT the diagrams in the lessons are drawn anew from that run, unless they differ only in what differs
// from run to run: see docs/refresh.
func TestDiagrams(t *testing.T) {
	path := os.Getenv("LAB_REPORT")
	if path == "" {
		t.Skip("it draws from a run: docs/refresh lab FILE")
	}
	var run lab.Report
	if err := json.Unmarshal([]byte(read(t, path)), &run); err != nil {
		t.Fatal(err)
	}
	generic := func(text string) []string { return report.Generic(strings.Split(text, "\n")) }
	for _, file := range lessons(t) {
		text := read(t, file)
		lang := map[bool]string{true: "zh", false: "en"}[strings.HasSuffix(file, ".zh-CN.md")]
		now := figures.ReplaceAllStringFunc(text, func(old string) string {
			m := figures.FindStringSubmatch(old)
			f, err := parseFigure(m[1])
			if err != nil {
				t.Errorf("%s: %v", file, err)
				return old
			}
			i := slices.IndexFunc(run.Cells, f.of)
			if i < 0 {
				return old // the run has not tried it
			}
			drawn := draw(run.Cells[i], lang)
			if slices.Equal(generic(drawn), generic(m[2])) {
				return old
			}
			return "<!-- diagram: " + m[1] + " -->\n" + drawn + "<!-- /diagram -->"
		})
		if now == text {
			continue
		}
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Every lesson has diagrams of its own, the same in both languages.
func TestLessonsHaveDiagrams(t *testing.T) {
	seen := make(map[string]string)
	for _, file := range lessons(t) {
		if strings.HasPrefix(filepath.Base(file), "README") || strings.HasSuffix(file, ".zh-CN.md") {
			continue
		}
		var marks, other []string
		for _, m := range figures.FindAllStringSubmatch(read(t, file), -1) {
			marks = append(marks, m[1])
		}
		for _, m := range figures.FindAllStringSubmatch(read(t, strings.TrimSuffix(file, ".md")+".zh-CN.md"), -1) {
			other = append(other, m[1])
		}
		if len(marks) == 0 || !slices.Equal(marks, other) {
			t.Errorf("%s has the diagrams %q in English, and %q in Chinese", file, marks, other)
		}
		for _, mark := range marks {
			if seen[mark] != "" {
				t.Errorf("%s and %s both show %s", seen[mark], file, mark)
			}
			seen[mark] = file
		}
	}
}
