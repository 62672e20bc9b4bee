package docs_test

import (
	"path/filepath"
	"regexp"
	"slices"
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

// targetsOfMake are the targets of the Makefile.
func targetsOfMake(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range targets.FindAllStringSubmatch(document(t, "Makefile"), -1) {
		names = append(names, strings.Fields(m[1])...)
	}
	return names
}
