package docs_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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

var redraw = flag.Bool("redraw", false, "TestDiagrams draws the diagrams in the lessons anew from docs/diagrams")

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

// file is where the events of the case are kept.
func (f figure) file() string {
	name := strings.TrimSuffix(f.scenario+"."+f.subject+"."+f.variant, ".")
	return filepath.Join("diagrams", strings.NewReplacer(" ", "-", ",", "").Replace(name)+".json")
}

// of reports whether a cell is of the case.
func (f figure) of(c lab.Cell) bool {
	return c.Scenario == f.scenario && c.Case().Subject() == f.subject && c.AsPredicted && len(c.Events) > 0 &&
		(f.variant == "" || c.Variant == f.variant)
}

// kept returns the cell that is kept.
func (f figure) kept() (c lab.Cell, err error) {
	text, err := os.ReadFile(f.file())
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

var numbered = regexp.MustCompile(`\b(app|redis|lab-[a-z0-9-]+)-\d+\b`)

// keep keeps the first cell of a run that is of the case, unless its diagram is the one that is kept: names have
// numbers by appearance, and only what a diagram is made from is kept.
func (f figure) keep(r lab.Report) error {
	i := slices.IndexFunc(r.Cells, f.of)
	if i < 0 {
		return nil // the run has not tried it
	}
	c := r.Cells[i]
	c.Evidence, c.SKU, c.TookMS = nil, "", 0
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	names, counts := make(map[string]string), make(map[string]int)
	said := numbered.ReplaceAllStringFunc(string(text), func(name string) string {
		kind := name[:strings.LastIndexByte(name, '-')]
		if names[name] == "" {
			counts[kind]++
			names[name] = fmt.Sprintf("%s-%d", kind, counts[kind])
		}
		return names[name]
	})
	var found lab.Cell
	if err := json.Unmarshal([]byte(said), &found); err != nil {
		return err
	}
	before, err := f.kept()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && like(before, found) {
		return nil
	}
	return os.WriteFile(f.file(), []byte(said+"\n"), 0o644)
}

// like reports whether the diagrams of two runs differ only in what differs from run to run.
func like(a, b lab.Cell) bool {
	lines := func(c lab.Cell) []string { return report.Generic(strings.Split(diagram.Of(c).Mermaid("en"), "\n")) }
	return slices.Equal(lines(a), lines(b))
}

// draw returns what stands in a lesson.
func draw(c lab.Cell, lang string) string {
	return "```mermaid\n" + diagram.Of(c).Mermaid(lang) + "```\n"
}

// Each lesson has a diagram, and each is what the events that are kept make. With LAB_REPORT the events are those of
// that run: see docs/refresh.
func TestDiagrams(t *testing.T) {
	var run lab.Report
	if path := os.Getenv("LAB_REPORT"); path != "" {
		if err := json.Unmarshal([]byte(read(t, path)), &run); err != nil {
			t.Fatal(err)
		}
		*redraw = true
	}
	used := make(map[string]bool)
	for _, file := range lessons(t) {
		text := read(t, file)
		lang := map[bool]string{true: "zh", false: "en"}[strings.HasSuffix(file, ".zh-CN.md")]
		drawn := 0
		now := figures.ReplaceAllStringFunc(text, func(old string) string {
			m := figures.FindStringSubmatch(old)
			f, err := parseFigure(m[1])
			if err == nil {
				err = f.keep(run)
			}
			var c lab.Cell
			if err == nil {
				c, err = f.kept()
			}
			if err != nil {
				t.Errorf("%s: %v: %s", file, err, refresh)
				return old
			}
			drawn++
			used[f.file()] = true
			return "<!-- diagram: " + m[1] + " -->\n" + draw(c, lang) + "<!-- /diagram -->"
		})
		if now != text && *redraw {
			if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
				t.Fatal(err)
			}
			text = now
		}
		if now != text {
			t.Errorf("%s: a diagram is not what docs/diagrams makes: run docs/refresh diagrams", file)
		}
		if n := strings.Count(text, "```mermaid"); n != drawn {
			t.Errorf("%s: %d diagrams, but %d are made from a run of the lab", file, n, drawn)
		}
	}
	kept, err := filepath.Glob("diagrams/*.json")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no diagrams: %v", err)
	}
	for _, file := range kept {
		if !used[file] {
			t.Errorf("%s is in no lesson", file)
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
