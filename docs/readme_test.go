package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?s)\n```[a-z]*\n(.*?)```")
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	makes   = regexp.MustCompile(`\bmake ([a-z][a-z-]*)`)
	targets = regexp.MustCompile(`(?m)^([a-z][a-z -]*):(?: |$)`)
	// aFile matches what is said to be a file of this project: it has a folder and a name, or is one of the root.
	aFile = regexp.MustCompile(`^(?:\./)?[a-z][\w.-]*(?:/[\w.*-]+)+/?$|^[a-z][\w-]*\.(?:go|yaml|http|sh)$`)
)

// Every file that the README names is there, and every target of make.
func TestREADMEsNameWhatIsThere(t *testing.T) {
	known := targetsOfMake(t)
	for _, file := range []string{"README.md", "README.zh-CN.md"} {
		text := document(t, file)
		var named []string
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			named = append(named, strings.FieldsFunc(block[1], func(r rune) bool {
				return strings.ContainsRune(" \n'\"", r)
			})...)
		}
		for _, code := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			named = append(named, code[1])
		}
		files := 0
		for _, name := range named {
			if !aFile.MatchString(name) || strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "out/") ||
				strings.HasPrefix(name, "github.com/") {
				continue
			}
			files++
			// "lock/lock.go, lease.go": what has no folder is in that of a file before it.
			found, _ := filepath.Glob(filepath.Join("..", name))
			deeper, _ := filepath.Glob(filepath.Join("..", "*", name))
			if len(found) == 0 && (strings.Contains(name, "/") || len(deeper) == 0) {
				t.Errorf("%s names %s, which is not there", file, name)
			}
		}
		if files < 15 {
			t.Errorf("%s names %d files: this test does not see them", file, files)
		}
		for _, m := range makes.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s says make %s, which is no target", file, m[1])
			}
		}
	}
}

// The files that a reader is sent to for the algorithms of the locks are as short as the READMEs promise.
func TestREADMEsKnowHowLongALockIs(t *testing.T) {
	for file, promise := range map[string]*regexp.Regexp{
		"README.md":       regexp.MustCompile(`(?m)^\d+\. The locks, .* at most (\d+) lines: .*$`),
		"README.zh-CN.md": regexp.MustCompile(`(?m)^\d+\. 各种锁，.*至多 (\d+) 行.*$`),
	} {
		said := promise.FindStringSubmatch(document(t, file))
		if said == nil {
			t.Fatalf("%s: no line matches %v", file, promise)
		}
		most, _ := strconv.Atoi(said[1])
		locks := 0
		for _, name := range quoted.FindAllStringSubmatch(said[0], -1) {
			if !strings.HasSuffix(name[1], ".go") {
				continue
			}
			locks++
			_, recipe, found := strings.Cut(document(t, name[1]), ") Acquire(")
			if lines := strings.Count(recipe, "\n"); !found || lines > most {
				t.Errorf("%s promises at most %d lines, %s has %d from Acquire on", file, most, name[1], lines)
			}
		}
		if locks == 0 {
			t.Errorf("%s names no file of a lock", file)
		}
	}
}

// targetsOfMake are the targets of the Makefile.
func targetsOfMake(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range targets.FindAllStringSubmatch(document(t, "Makefile"), -1) {
		names = append(names, strings.Fields(m[1])...)
	}
	return names
}
