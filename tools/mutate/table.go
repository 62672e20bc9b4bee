package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// tableName is the file beside the code of a package that lists its mutants.
const tableName = "mutants.txt"

// A Mutant is one small change to the code, and the test that must notice it. In a table it is
//
//	# a deadline counted from after the reply
//	file keepalive.go
//	test TestKeepAliveSlowRenewal
//	-until = now.Add(Valid(k.TTL))
//	+until = time.Now().Add(Valid(k.TTL))
//
// and a blank line. "#" is its name: a phrase, unique in the table, that says what is broken. A paragraph of "#" lines
// alone is a comment. "file" is relative to the package, and may be any file of which the package is built: Go, or
// what Go embeds. "-" lines are code that is in the file exactly once, where a run of white space is as good as any
// other. "+" lines take its place; without them nothing does. More "-" lines after a "+" are a second place in the
// same file.
//
// Instead of "test" there may be "same REASON", for a change that makes no difference that can be seen, or "open
// REASON" for one that no test notices yet. More lines:
//
//	in ./other/package    the test is in another package of the module, which imports this one
//	race                  the test needs the race detector
type Mutant struct {
	Package string // the folder of its table, relative to the module, with slashes
	Name    string
	File    string // relative to Package
	Test    string // as for go test -run, but each part must match as a whole
	In      string // the folder of the test's package; empty: Package
	Race    bool
	Same    string // why it changes nothing
	Open    string // why no test notices it
	Edits   []Edit
	line    int // in the table
}

// An Edit replaces code that occurs once.
type Edit struct{ Old, New string }

// path is the file that the mutant changes, relative to the module.
func (m *Mutant) path() string { return path.Join(m.Package, m.File) }

func (m *Mutant) testPackage() string {
	if m.In != "" {
		return m.In
	}
	return m.Package
}

// id is the hash of all on which its result depends: not of its name, nor of its place in the table.
func (m *Mutant) id() string {
	text := fmt.Sprintf("%q %q %q %v %v %v %q", m.path(), m.Test, m.testPackage(), m.Race, m.Same != "", m.Open != "",
		m.Edits)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
}

// verdictDue says what the table claims.
func (m *Mutant) verdictDue() string {
	switch {
	case m.Same != "":
		return "same: " + m.Same
	case m.Open != "":
		return "open: " + m.Open
	case m.In != "":
		return m.Test + " in " + m.In
	}
	return m.Test
}

// readTables reads all tables of the module in root, in the order of their folders.
func readTables(root string) ([]*Mutant, error) {
	var all []*Mutant
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			base := entry.Name()
			skip := strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "out", "bin"}, base)
			if name != root && (skip || isModule(name)) {
				return fs.SkipDir
			}
			return nil
		}
		if entry.Name() != tableName {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		mutants, err := parseTable(filepath.ToSlash(dir), string(text))
		all = append(all, mutants...)
		return err
	})
	return all, err
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// parseTable reads the table of a package. The error names each line that is wrong.
func parseTable(pkg, text string) (mutants []*Mutant, err error) {
	var problems []error
	wrong := func(line int, format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		problems = append(problems, fmt.Errorf("%s:%d: %s", path.Join(pkg, tableName), line, what))
	}
	seen := make(map[string]bool)
	number := 1
	for _, paragraph := range strings.Split(text, "\n\n") {
		first := number
		number += strings.Count(paragraph, "\n") + 2
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		first += len(paragraph) - len(strings.TrimLeft(paragraph, "\n"))
		if !slices.ContainsFunc(lines, func(s string) bool { return s != "" && s[0] != '#' }) {
			continue // a comment, or nothing
		}
		m := &Mutant{Package: pkg, line: first}
		for i, line := range lines {
			if problem := m.read(line); problem != "" {
				wrong(first+i, "%s", problem)
			}
		}
		if problem := m.incomplete(); problem != "" {
			wrong(first, "%s", problem)
		}
		if seen[m.Name] {
			wrong(first, "a second mutant with the name %q", m.Name)
		}
		seen[m.Name] = true
		mutants = append(mutants, m)
	}
	return mutants, errors.Join(problems...)
}

// read takes in one line of the table.
func (m *Mutant) read(line string) (problem string) {
	if line == "" {
		return "an empty line within a mutant"
	}
	last := len(m.Edits) - 1
	switch line[0] {
	case '-':
		if last < 0 || m.Edits[last].New != "" {
			m.Edits, last = append(m.Edits, Edit{}), last+1
		}
		m.Edits[last].Old += line[1:] + "\n"
		return ""
	case '+':
		if last < 0 {
			return "+ before any -"
		}
		m.Edits[last].New += line[1:] + "\n"
		return ""
	}
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	field := map[string]*string{
		"#": &m.Name, "file": &m.File, "test": &m.Test, "in": &m.In, "same": &m.Same, "open": &m.Open,
	}[word]
	switch {
	case word == "race" && rest == "":
		m.Race = true
		return ""
	case field == nil:
		return fmt.Sprintf("%q is none of #, file, test, in, race, same, open, - and +", word)
	case rest == "":
		return word + " says nothing"
	case *field != "":
		return "a second " + word
	}
	if word == "in" {
		rest = path.Clean(rest)
	}
	*field = rest
	return ""
}

// incomplete says what the mutant lacks.
func (m *Mutant) incomplete() string {
	claims := 0
	for _, claim := range []string{m.Test, m.Same, m.Open} {
		if claim != "" {
			claims++
		}
	}
	switch {
	case m.Name == "":
		return "a mutant without a name: the first line is # and what is broken"
	case m.File == "":
		return "no file"
	case claims != 1:
		return "exactly one of test, same and open is needed"
	case len(m.Edits) == 0:
		return "no code: a line that begins with - is needed"
	}
	for _, e := range m.Edits {
		if strings.TrimSpace(e.Old) == "" {
			return "- names no code"
		}
	}
	return ""
}

// apply returns the text with all edits made.
func (m *Mutant) apply(text string) (string, error) {
	type place struct {
		from, to int
		with     string
	}
	var places []place
	for _, e := range m.Edits {
		from, to, times := find(text, e.Old)
		if times != 1 {
			return "", fmt.Errorf("the code is there %d times, not once: %s", times, strings.TrimSpace(e.Old))
		}
		places = append(places, place{from, to, strings.TrimSuffix(e.New, "\n")})
	}
	slices.SortFunc(places, func(a, b place) int { return b.from - a.from })
	for i, p := range places {
		if i > 0 && p.to > places[i-1].from {
			return "", errors.New("two places overlap")
		}
		text = text[:p.from] + p.with + text[p.to:]
	}
	return text, nil
}

// find looks for code in text, both with each run of white space as one blank, and returns the last place and how many
// there are. Places that overlap count.
func find(text, code string) (from, to, times int) {
	short, offsets := collapse(text)
	wanted, _ := collapse(strings.TrimSpace(code))
	for at := 0; ; at++ {
		next := strings.Index(short[at:], wanted)
		if next < 0 {
			return from, to, times
		}
		at += next
		from, to = offsets[at], offsets[at+len(wanted)-1]+1
		times++
	}
}

// collapse makes each run of white space one blank, and tells for each byte of that where it was.
func collapse(text string) (string, []int) {
	var b strings.Builder
	offsets := make([]int, 0, len(text))
	blank := false
	for i, r := range text {
		if unicode.IsSpace(r) {
			if !blank {
				b.WriteByte(' ')
				offsets = append(offsets, i)
			}
			blank = true
			continue
		}
		blank = false
		before := b.Len()
		b.WriteRune(r)
		for n := range b.Len() - before {
			offsets = append(offsets, i+n)
		}
	}
	return b.String(), offsets
}

// alternatives splits a -run pattern at each | that is in no bracket: each part is tests of the same depth.
func alternatives(pattern string) []string {
	var parts []string
	depth, begin := 0, 0
	for i, r := range pattern {
		switch r {
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '|':
			if depth == 0 {
				parts = append(parts, pattern[begin:i])
				begin = i + 1
			}
		}
	}
	return append(parts, pattern[begin:])
}

// anchored makes each element of the pattern match a name as a whole.
func anchored(pattern string) string {
	parts := alternatives(pattern)
	for i, part := range parts {
		elements := strings.Split(part, "/")
		for j, e := range elements {
			elements[j] = "^(" + e + ")$"
		}
		parts[i] = strings.Join(elements, "/")
	}
	return strings.Join(parts, "|")
}

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// testsIn returns the names of the test funcs in the source of tests.
func testsIn(source string) (names []string) {
	for _, found := range testFunc.FindAllStringSubmatch(source, -1) {
		names = append(names, found[1])
	}
	return names
}

// namesTests reports whether each alternative of the pattern names one of the tests.
func namesTests(pattern string, tests []string) error {
	for _, part := range alternatives(pattern) {
		name, _, _ := strings.Cut(part, "/")
		expression, err := regexp.Compile("^(?:" + name + ")$")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(tests, expression.MatchString) {
			return fmt.Errorf("no test %s", name)
		}
	}
	return nil
}
