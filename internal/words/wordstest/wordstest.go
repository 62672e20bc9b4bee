// Package wordstest checks that a package says everything from its catalogue, and that every text of the catalogue is
// said.
package wordstest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"example.com/stock/internal/words"
)

// A Speaker says how a function or method says a text: At is the index of the key among its arguments, and Under what
// comes before it in the catalogue, if anything. Several functions of one name may have several of these. The arguments
// after the key are the pairs of Say, unless it is Bare.
type Speaker struct {
	At    int
	Under []string
	Bare  bool
}

// Said checks the package in a folder against a catalogue: each call of a speaker, by name, with a literal key has a
// text and gives it the values of its placeholders. It returns the keys.
func Said(t *testing.T, book words.Phrasebook, folder string, speakers map[string]Speaker) (said []string) {
	t.Helper()
	texts, err := book.Texts()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range sources(t, folder) {
		ast.Inspect(file.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			speaker, speaks := speakers[name(call)]
			if !speaks || len(call.Args) <= speaker.At {
				return true
			}
			key, is := literal(call.Args[speaker.At])
			if !is || key == "" {
				return true
			}
			at := slices.IndexFunc(speaker.Under, func(under string) bool { return texts[under+key] != words.Text{} })
			if at >= 0 {
				key = speaker.Under[at] + key
			}
			said = append(said, key)
			text, ok := texts[key]
			if !ok {
				t.Errorf("%s: there is no text %q", file.at(call), key)
				return true
			}
			if call.Ellipsis.IsValid() || speaker.Bare {
				return true
			}
			var given []string
			for i := speaker.At + 1; i < len(call.Args); i += 2 {
				name, _ := literal(call.Args[i])
				given = append(given, "{"+name+"}")
			}
			slices.Sort(given)
			if want := words.Placeholders(text.EN); !slices.Equal(given, want) {
				t.Errorf("%s: %s is given %v, and has the placeholders %v", file.at(call), key, given, want)
			}
			return true
		})
	}
	return said
}

// Catalogue checks a catalogue against the package in the current folder, as Said does, and that each text is said.
// Keys that are put together at run time are given as made; one that ends in a dot stands for all that begin with it.
func Catalogue(t *testing.T, book words.Phrasebook, speakers map[string]Speaker, made ...string) {
	t.Helper()
	texts, err := book.Texts()
	if err != nil {
		t.Fatal(err)
	}
	said := make(map[string]bool)
	for _, key := range Said(t, book, ".", speakers) {
		said[key] = true
	}
	for _, key := range inTemplates(t) {
		said[key] = true
		if _, ok := texts[key]; !ok {
			t.Errorf("a template says %q, which is no text", key)
		}
	}
	for key, text := range texts {
		if !said[key] && !slices.ContainsFunc(made, func(m string) bool {
			return m == key || strings.HasSuffix(m, ".") && strings.HasPrefix(key, m)
		}) {
			t.Errorf("nothing says %s", key)
		}
		if !strings.ContainsFunc(text.ZH, isHan) && sentence(text.ZH) && text.EN != text.ZH {
			t.Errorf("%s is not Chinese in zh.yaml: %q", key, text.ZH)
		}
		if strings.ContainsFunc(text.EN, isHan) {
			t.Errorf("%s is not English in en.yaml: %q", key, text.EN)
		}
	}
	for _, key := range made {
		if _, ok := texts[key]; !ok && !strings.HasSuffix(key, ".") {
			t.Errorf("there is no text %q", key)
		}
	}
}

var saysInTemplate = regexp.MustCompile(`say "([^"]+)"`)

// inTemplates returns the keys that the templates in the current folder say.
func inTemplates(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range saysInTemplate.FindAllStringSubmatch(string(text), -1) {
			keys = append(keys, m[1])
		}
	}
	return keys
}

func isHan(r rune) bool { return unicode.Is(unicode.Han, r) }

// Allowed says which sentences may stay in the code of a package, each with the reason. What is allowed and is not
// there is an error, so that a list does not outlive its reasons.
type Allowed struct {
	Literals map[string]string // by their text
	Files    map[string]string // those that speak to programs or to developers alone
	Names    map[string]string // of fields, constants and functions, whose values or arguments are not looked at
}

// Literals checks that the package in the current folder has no sentence in its code that a person may be shown: no
// literal with two words beside each other.
func Literals(t *testing.T, allowed Allowed) {
	t.Helper()
	found := make(map[string]bool)
	exempt := func(name string) bool {
		_, is := allowed.Names[name]
		found[name] = found[name] || is
		return is
	}
	for _, file := range sources(t, ".") {
		if _, skipped := allowed.Files[file.name]; skipped {
			found[file.name] = true
			continue
		}
		tags := make(map[*ast.BasicLit]bool)
		ast.Inspect(file.File, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Field:
				tags[n.Tag] = true
			case *ast.ImportSpec:
				tags[n.Path] = true
			case *ast.ValueSpec:
				return !exempt(n.Names[0].Name)
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					return !exempt(key.Name)
				}
			case *ast.CallExpr:
				called := name(n) // developers read a panic
				return called != "panic" && called != "MustCompile" && !exempt(called)
			case *ast.BasicLit:
				text, ok := literal(n)
				if !ok || tags[n] || !sentence(text) {
					break
				}
				if _, may := allowed.Literals[text]; may {
					found[text] = true
					break
				}
				t.Errorf("%s: %q is a text that has one language only", file.at(n), text)
			}
			return true
		})
	}
	for _, list := range []map[string]string{allowed.Literals, allowed.Files, allowed.Names} {
		for text := range list {
			if !found[text] {
				t.Errorf("%q is allowed, and is not there", text)
			}
		}
	}
}

// sentence reports whether a literal has two words beside each other, without what fmt and markup put there.
func sentence(text string) bool {
	if strings.Contains(text, "<") && strings.Contains(text, "=") {
		return false // markup
	}
	run := 0
	for word := range strings.FieldsSeq(text) {
		letters := strings.TrimRight(word, ".,:;!?)")
		if len(letters) > 1 && strings.IndexFunc(letters, func(r rune) bool {
			return !unicode.IsLetter(r) && r != '\'' && r != '-'
		}) < 0 && !strings.HasPrefix(letters, "-") {
			if run++; run == 2 {
				return true
			}
			continue
		}
		run = 0
	}
	return false
}

// A source is a file of the package.
type source struct {
	*ast.File
	name string
	set  *token.FileSet
}

func (s source) at(n ast.Node) string { return s.set.Position(n.Pos()).String() }

func sources(t *testing.T, folder string) []source {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var list []source
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, source{file, name, set})
	}
	return list
}

// name returns the name of what is called, without what it belongs to.
func name(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// literal returns the value of a text in the code; one that is put together with + counts as its first part.
func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
