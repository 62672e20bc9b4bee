package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// translated are the documents, from the root, that exist in both languages. The lessons have a test of their own.
func translated() []string {
	return []string{
		"README", "docs/architecture", "docs/strategies", "docs/operations", "docs/orders", "docs/which",
		"docs/bench-http", "docs/class", "docs/new", "docs/engine", "docs/notes",
		"docs/security", "docs/grade", "docs/traces", "loadtest/README",
	}
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

// anchors are the names that a page gives to the headings of text, and those that the text gives itself.
func anchors(text string) map[string]bool {
	names := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		names[m[2]+anchorOf(m[1])] = true
	}
	return names
}

// anchorOf is the name that a page gives to a heading.
func anchorOf(heading string) string {
	return strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}

// Links from these documents lead to files and headings, and a Chinese document links to Chinese ones where there are
// any.
func TestLinksLeadSomewhere(t *testing.T) {
	known := make(map[string]map[string]bool) // anchors by document, because some are linked to a hundred times
	for _, name := range translated() {
		for _, file := range []string{name + ".md", name + ".zh-CN.md"} {
			text := document(t, file)
			for _, m := range target.FindAllStringSubmatch(text, -1) {
				to := file
				if m[1] != "" {
					to = filepath.Join(filepath.Dir(file), m[1])
				}
				if info, err := os.Stat(filepath.Join("..", to)); err != nil {
					t.Errorf("%s links to %s: %v", file, m[1], err)
				} else if !info.IsDir() && m[2] != "" {
					if known[to] == nil {
						known[to] = anchors(document(t, to))
					}
					if !known[to][m[2]] {
						t.Errorf("%s links to %s#%s, but there is no such heading", file, m[1], m[2])
					}
				}
				twin := strings.TrimSuffix(to, ".md") + ".zh-CN.md"
				if !strings.HasSuffix(file, ".zh-CN.md") || to == name+".md" {
					continue
				}
				if _, err := os.Stat(filepath.Join("..", twin)); err == nil {
					t.Errorf("%s links to the English %s", file, m[1])
				}
			}
		}
	}
}

// A stranger reads the first minute in a minute: a picture, the two commands by line 20, and links to the rest.
func TestREADMEsAreShort(t *testing.T) {
	for _, file := range []string{"README.md", "README.zh-CN.md"} {
		lines := strings.Split(strings.TrimRight(document(t, file), "\n"), "\n")
		_, rest, _ := strings.Cut(document(t, file), "<!-- strategies -->")
		table, _, _ := strings.Cut(rest, "<!-- /strategies -->")
		if n := len(lines) - strings.Count(table, "\n"); n > 134 {
			t.Errorf("%s has %d lines beside the table of strategies, want 134 at most", file, n)
		}
		first := strings.Join(lines[:20], "\n")
		if !strings.Contains(first, "git clone") || !strings.Contains(first, "\nmake demo\n") {
			t.Errorf("%s does not show the two commands by line 20", file)
		}
	}
}
