package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lab/grade"
	"example.com/stock/lab/scenario"
	"example.com/stock/service/strategy"
)

// pages returns the files of these patterns, from the root of the repository.
func pages(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		for _, file := range found {
			files = append(files, strings.TrimPrefix(filepath.ToSlash(file), "../"))
		}
	}
	return files
}

// everyPage returns all documents that lead a reader somewhere.
func everyPage(t *testing.T) []string {
	t.Helper()
	return pages(t, "*.md", "docs/*.md", "docs/lessons/*.md", "docs/adr/*.md", "loadtest/*.md", "lock/*.md",
		"tools/bench/*.md")
}

func document(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	target  = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$|<a id="([^"]*)"></a>`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}\s_-]`)
)

// anchors returns the names that a page gives to its headings, and those that it gives itself, in order.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, m[2]+strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// Links lead to files and headings, and a Chinese page links to Chinese ones where there are any.
func TestLinksLeadSomewhere(t *testing.T) {
	known := make(map[string][]string) // anchors by document, because some are linked to a hundred times
	for _, file := range everyPage(t) {
		for _, m := range target.FindAllStringSubmatch(document(t, file), -1) {
			to := file
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(file), m[1])
			}
			if info, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s links to %s: %v", file, m[1], err)
				continue
			} else if !info.IsDir() && m[2] != "" && known[to] == nil {
				known[to] = anchors(document(t, to))
			}
			if m[2] != "" && !slices.Contains(known[to], m[2]) {
				t.Errorf("%s links to %s#%s, but there is no such heading", file, m[1], m[2])
			}
			name, chinese := strings.CutSuffix(file, ".zh-CN.md")
			twin := filepath.Join("..", strings.TrimSuffix(to, ".md")+".zh-CN.md")
			if _, err := os.Stat(twin); err == nil && chinese && to != name+".md" {
				t.Errorf("%s links to the English %s", file, m[1])
			}
		}
	}
}

var (
	makes   = regexp.MustCompile("[`\n]make ([a-z][a-z-]*)")
	targets = regexp.MustCompile(`(?m)^([a-z][a-z -]*):(?: |$)`)
	stocks  = regexp.MustCompile("bin/stock ([a-z]+)")
	tests   = regexp.MustCompile("(?:`|\\./|com/stock/)([a-z/]+)(?:\\.| -run '\\^)((?:Test|Fuzz)[A-Za-z0-9]+)")
	kebabs  = regexp.MustCompile("`([a-z0-9]+(?:-[a-z0-9]+){2,})`")
)

// The targets of make, the commands and the tests that pages name exist; in lessons, so do the scenarios.
func TestWhatIsNamedExists(t *testing.T) {
	var goals []string
	for _, m := range targets.FindAllStringSubmatch(document(t, "Makefile"), -1) {
		goals = append(goals, strings.Fields(m[1])...)
	}
	names := namesOfTheLab(t)
	for _, file := range everyPage(t) {
		text := document(t, file)
		for _, m := range makes.FindAllStringSubmatch(text, -1) {
			elsewhere := file == "CHANGELOG.md" || strings.HasPrefix(file, "docs/orders") // past, or of orders/Makefile
			if !elsewhere && !slices.Contains(goals, m[1]) {
				t.Errorf("%s says make %s, which is no target", file, m[1])
			}
		}
		for _, m := range stocks.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join("..", "cmd", "stock", m[1]+".go")); err != nil {
				t.Errorf("%s says bin/stock %s, which is no command", file, m[1])
			}
		}
		for _, m := range tests.FindAllStringSubmatch(text, -1) {
			if len(pages(t, m[1]+"/*_test.go")) == 0 || !hasTest(t, m[1], m[2]) {
				t.Errorf("%s names %s.%s, which is no test", file, m[1], m[2])
			}
		}
		for _, m := range kebabs.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(file, "docs/lessons/") && !slices.Contains(names, m[1]) {
				t.Errorf("%s names %s, which is no scenario and no strategy", file, m[1])
			}
		}
	}
}

func namesOfTheLab(t *testing.T) (names []string) {
	t.Helper()
	all, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		names = append(names, s.Name)
	}
	for _, s := range strategy.All() {
		names = append(names, s.Name)
	}
	for _, s := range grade.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// hasTest reports whether a package has a test of this name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	return slices.ContainsFunc(pages(t, folder+"/*_test.go"), func(file string) bool {
		return strings.Contains(document(t, file), "\nfunc "+name+"(")
	})
}
