package main

import (
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongTables(t *testing.T) {
	const good = "# a\nfile f.go\ntest TestA\n-x\n+y\n"
	two := "# what this is about\n\n" + good + "\n\n" + strings.Replace(good, "# a", "# b", 1)
	m, err := parseTable("p", two)
	if err != nil || len(m) != 2 || m[1].line != 10 || m[0].Edits[0] != (Edit{"x\n", "y\n"}) {
		t.Fatalf("%v %+v", err, m)
	}
	for table, want := range map[string]string{
		good + "\n" + good:                           `p/mutants.txt:7: a second mutant with the name "a"`,
		strings.Replace(good, "# a\n", "", 1):        "1: a mutant without a name",
		strings.Replace(good, "# a", "# ", 1):        "1: # says nothing",
		good + "# more\n":                            "6: a second #",
		strings.Replace(good, "file f.go\n", "", 1):  "1: no file",
		strings.Replace(good, "file", "fill", 1):     `2: "fill" is none of`,
		strings.Replace(good, "-x\n", "", 1):         "4: + before any -",
		strings.Replace(good, "-x", "- ", 1):         "- names no code",
		good + "same no reason\n":                    "exactly one of test, same and open",
		strings.Replace(good, "test TestA\n", "", 1): "exactly one of test, same and open",
	} {
		if _, err := parseTable("p", table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of\n%s\nit says %v, want %s", table, err, want)
		}
	}
}

func TestApply(t *testing.T) {
	const text = "a  =\n\t\tb\nc = ü d\n"
	for name, row := range map[string]struct {
		edits []Edit
		want  string // empty: refused
	}{
		"white space":         {[]Edit{{"a = b", "x"}}, "x\nc = ü d\n"},
		"nothing instead":     {[]Edit{{"a = b", ""}}, "\nc = ü d\n"},
		"beyond ASCII":        {[]Edit{{"ü d", "e"}}, "a  =\n\t\tb\nc = e\n"},
		"several lines":       {[]Edit{{"b\nc\n", "b\n\tx\n"}}, "a  =\n\t\tb\n\tx = ü d\n"},
		"two places":          {[]Edit{{"a =", "x ="}, {"d", "y"}}, "x =\n\t\tb\nc = ü y\n"},
		"not there":           {[]Edit{{"a=b", "x"}}, ""},
		"twice":               {[]Edit{{"=", "x"}}, ""},
		"places that overlap": {[]Edit{{"a = b", "x"}, {"b c", "y"}}, ""},
	} {
		got, err := (&Mutant{Edits: row.edits}).apply(text)
		if got != row.want || (err == nil) != (row.want != "") {
			t.Errorf("%s: %q, %v; want %q", name, got, err, row.want)
		}
	}
}

func TestAnchored(t *testing.T) {
	for pattern, want := range map[string]string{
		"TestA":           "^(TestA)$",
		"TestA|TestB/sub": "^(TestA)$|^(TestB)$/^(sub)$",
		"TestA/(b|c)":     "^(TestA)$/^((b|c))$",
	} {
		if got := anchored(pattern); got != want {
			t.Errorf("%s: %s, want %s", pattern, got, want)
		}
	}
}

// The tables of this module fit its code and its tests. That each mutant is killed is for the command to see.
func TestTablesFit(t *testing.T) {
	const root = "../.."
	all, err := readTables(root)
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string][]string) // by package
	for _, m := range all {
		at := path.Join(m.Package, tableName) + ": " + m.Name
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.path())))
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		if _, err := m.apply(string(text)); err != nil {
			t.Errorf("%s: %v", at, err)
		}
		if m.Test == "" {
			continue
		}
		dir := m.testPackage()
		if tests[dir] == nil {
			files, _ := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				tests[dir] = append(tests[dir], testsIn(string(text))...)
			}
		}
		if err := namesTests(m.Test, tests[dir]); err != nil {
			t.Errorf("%s: %v in %s", at, err, dir)
		}
	}
}
