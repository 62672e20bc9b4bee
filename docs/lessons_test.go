package docs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
)

// refresh is what to do when the output in a lesson is not what the lab says.
const refresh = "run docs/refresh lessons"

// An excerpt is a command of the lab in a lesson. Its output is below it, between <!-- lab run ... --> and <!-- /lab
// -->.
type excerpt struct {
	command    string // as it is typed
	scenarios  []lab.Scenario
	strategies []string // empty: all
	lang       string
}

var excerpts = regexp.MustCompile("(?s)<!-- (lab run [^\n]*) -->\n(.*?)<!-- /lab -->")

func lessons(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("lessons/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no lessons: %v", err)
	}
	return files
}

// parse understands a command, as stock lab run does.
func parse(command string) (e excerpt, err error) {
	e.command, e.lang = "bin/stock "+command, "en"
	var names []string
	args := strings.Fields(command)[2:]
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case !strings.HasPrefix(arg, "-"):
			names = append(names, arg)
		case i+1 == len(args):
			return e, fmt.Errorf("%s: %s has no value", command, arg)
		case arg == "--strategy":
			i++
			e.strategies = strings.Split(args[i], ",")
		case arg == "--lang":
			i++
			e.lang = args[i]
		default:
			return e, fmt.Errorf("%s: %s is not for lessons", command, arg)
		}
	}
	if e.scenarios, err = scenario.Find(names...); err != nil || len(names) == 0 {
		return e, fmt.Errorf("%s: no scenario: %w", command, err)
	}
	for _, name := range e.strategies {
		if !slices.ContainsFunc(e.scenarios, func(s lab.Scenario) bool {
			return slices.ContainsFunc(s.Cases, func(c lab.Case) bool { return c.Subject() == name })
		}) {
			return e, fmt.Errorf("%s: %s is no case of it", command, name)
		}
	}
	return e, nil
}

// wants reports whether the command tries a case.
func (e excerpt) wants(subject string) bool {
	return len(e.strategies) == 0 || slices.Contains(e.strategies, subject)
}

// madeBy reports whether a run has tried the scenarios of the command. What it has not tried stays as it is.
func (e excerpt) madeBy(r lab.Report) bool {
	return !slices.ContainsFunc(e.scenarios, func(s lab.Scenario) bool {
		return !slices.ContainsFunc(r.Cells, func(c lab.Cell) bool { return c.Scenario == s.Name })
	})
}

// print is what the command prints of a run: it is written by what the command itself writes with.
func (e excerpt) print(r lab.Report) string {
	var b bytes.Buffer
	for _, s := range e.scenarios {
		lab.WriteScenario(&b, s, e.lang)
		for _, c := range r.Cells {
			if c.Scenario == s.Name && e.wants(c.Case().Subject()) {
				lab.WriteCell(&b, c, false, e.lang)
			}
		}
	}
	return e.fold(b.String())
}

// foldFrom is how many lines of output a reader sees at once: longer ones are folded away below the command.
const foldFrom = 15

// fold returns an output as it stands in a lesson.
func (e excerpt) fold(output string) string {
	text := fmt.Sprintf("```\n$ %s\n%s```\n", e.command, output)
	n := strings.Count(output, "\n")
	if n <= foldFrom {
		return text
	}
	summary := map[string]string{
		"en": "<code>%s</code>: what it prints, %d lines", "zh": "<code>%s</code>：它的输出，%d 行",
	}[e.lang]
	return "<details><summary>" + fmt.Sprintf(summary, e.command, n) + "</summary>\n\n" + text + "\n</details>\n"
}

// unfolded returns the lines of a text of fold that the program has printed.
func unfolded(text string) []string {
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```\n")
	return strings.Split(text, "\n")
}

// refold returns a text of fold, or one that is out of date, as fold makes it.
func (e excerpt) refold(text string) string {
	if lines := unfolded(text); len(lines) > 1 {
		return e.fold(strings.Join(lines[1:], "\n"))
	}
	return text
}

// Outputs of more than 15 lines are folded away, and no other.
func TestLongOutputsAreFolded(t *testing.T) {
	for _, file := range lessons(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range excerpts.FindAllStringSubmatch(string(text), -1) {
			e, err := parse(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if m[2] != e.refold(m[2]) {
				t.Errorf("%s: %s is not folded as it should be: %s", file, e.command, refresh)
			}
		}
	}
}

// What the lessons show of the lab exists: commands that can be run, and under each the word of every case as in the
// matrix. With LAB_REPORT the outputs are made anew from that run: see docs/refresh.
func TestLessons(t *testing.T) {
	if path := os.Getenv("LAB_REPORT"); path != "" {
		rewrite(t, path)
	}
	words := words(t)
	shown := make(map[string]bool)
	for _, file := range lessons(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range excerpts.FindAllStringSubmatch(string(text), -1) {
			e, err := parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if want := map[bool]string{true: "zh", false: "en"}[strings.HasSuffix(file, ".zh-CN.md")]; e.lang != want {
				t.Errorf("%s: %s: its language is not %s", file, e.command, want)
			}
			for _, s := range e.scenarios {
				shown[s.Name] = true
				e.check(t, file, m[2], s, words)
			}
		}
	}
	if len(shown) < 20 {
		t.Errorf("the lessons show %d scenarios", len(shown))
	}
}

// check compares an output with the catalogue and the matrix.
func (e excerpt) check(t *testing.T, file, output string, s lab.Scenario, words []report.Word) {
	t.Helper()
	if !strings.Contains(output, "$ "+e.command+"\n") || !strings.Contains(output, s.Forced.In(e.lang)) ||
		!strings.Contains(output, s.Fix.In(e.lang)) {
		t.Errorf("%s: %s: its output is not about it: %s", file, e.command, refresh)
	}
	_, output, _ = strings.Cut(output, " ("+s.Name+")\n")
	for _, w := range words {
		if w.Scenario != s.Name {
			continue
		}
		i := slices.IndexFunc(s.Cases, func(c lab.Case) bool { return c.String() == w.Case })
		if i < 0 || !e.wants(s.Cases[i].Subject()) {
			continue
		}
		// A cell names its store, and a case only if it is not the strategy's default.
		c := s.Cases[i]
		stores := []string{c.Store}
		if c.Store == "" {
			stores = append(stores, "redis", "mysql")
		}
		if !slices.ContainsFunc(stores, func(store string) bool {
			c := c
			c.Store = store
			line := "\n  ✓ " + c.Said().In(e.lang) + ": " + string(w.Observed)
			return slices.ContainsFunc([]string{",", ":", " "}, func(end string) bool {
				return strings.Contains("\n"+output, line+end)
			})
		}) {
			t.Errorf("%s: %s: it does not say %s of %s: %s", file, e.command, w.Observed, c, refresh)
		}
	}
}

func rewrite(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r lab.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	for _, file := range lessons(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out := excerpts.ReplaceAllStringFunc(string(text), func(old string) string {
			m := excerpts.FindStringSubmatch(old)
			e, err := parse(m[1])
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			text := e.print(r)
			if folded := e.refold(m[2]); !e.madeBy(r) || same(m[2], text) {
				text = folded
			}
			return "<!-- " + m[1] + " -->\n" + text + "<!-- /lab -->"
		})
		if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// same reports whether two outputs differ only in what differs from run to run: fences, names of instances, times.
func same(a, b string) bool {
	return slices.Equal(report.Generic(unfolded(a)), report.Generic(unfolded(b)))
}

var elsewhere = regexp.MustCompile(`(?m)^- (Elsewhere: |外部资料：).*\[[^\]]+\]\(https?://[^)]+\)`)

// Every scenario of the lab has its place in a lesson of each language.
func TestEveryScenarioIsInALesson(t *testing.T) {
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, chinese := range []bool{false, true} {
		var text strings.Builder
		for _, file := range lessons(t) {
			if strings.HasSuffix(file, ".zh-CN.md") == chinese {
				text.WriteString(read(t, file))
			}
		}
		words := strings.FieldsFunc(text.String(), func(r rune) bool { return r == ' ' || r == '`' || r == '\n' })
		for _, s := range all {
			if !slices.Contains(words, s.Name) {
				t.Errorf("no lesson names %s (Chinese: %v)", s.Name, chinese)
			}
		}
	}
}

// Every lesson is there in both languages, with all its parts, and its links lead to files.
func TestLessonsAreWhole(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, file := range lessons(t) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join("lessons", m[1])); err != nil {
				t.Errorf("%s: a link leads nowhere: %v", file, err)
			}
		}
		english, isChinese := strings.CutSuffix(file, ".zh-CN.md")
		if isChinese {
			if _, err := os.Stat(english + ".md"); err != nil {
				t.Errorf("%s is not there in English", file)
			}
		} else if _, err := os.Stat(strings.TrimSuffix(file, ".md") + ".zh-CN.md"); err != nil {
			t.Errorf("%s is not there in Chinese", file)
		}
		if strings.HasPrefix(filepath.Base(file), "README") {
			continue
		}
		parts := []string{"## Predict", "## Run", "## Why", "## The fix", "## What is still not promised", "## Read"}
		if isChinese {
			parts = []string{"## 先猜", "## 运行", "## 为什么", "## 怎么修", "## 仍然不保证什么", "## 读代码"}
		}
		for _, part := range parts {
			if !strings.Contains(string(text), "\n"+part+"\n") {
				t.Errorf("%s has no part %q", file, part)
			}
		}
		if !excerpts.Match(text) {
			t.Errorf("%s shows no run", file)
		}
		questions := map[bool]string{false: "\n## Questions\n", true: "\n## 想一想\n"}[isChinese]
		if _, after, _ := strings.Cut(string(text), questions); strings.Count(after, "<details><summary>") != 3 {
			t.Errorf("%s has not three questions with folded answers", file)
		}
		if !elsewhere.Match(text) {
			t.Errorf("%s names no source elsewhere", file)
		}
		for _, index := range []string{"lessons/README.md", "lessons/README.zh-CN.md"} {
			list, err := os.ReadFile(index)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(index, ".zh-CN.md") == isChinese &&
				!strings.Contains(string(list), "("+filepath.Base(file)+")") {
				t.Errorf("%s does not list %s", index, file)
			}
		}
	}
}
