package lab

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// catalogueOf makes a catalogue of two files.
func catalogueOf(en, zh string) fstest.MapFS {
	return fstest.MapFS{"text/en.yaml": {Data: []byte(en)}, "text/zh.yaml": {Data: []byte(zh)}}
}

// The error of ReadTexts names the key of each mistake.
func TestReadTextsNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, en, zh, want string }{
		{"no Chinese", "a: {b: x, c: y}", "a: {b: x}", "text/zh.yaml: there is no a.c"},
		{"no English", "a: x", "{a: x, b: y}", "text/en.yaml: there is no b"},
		{
			"another placeholder", "a: '{who} asks'", "a: '{whom}'",
			"a has the placeholders [{who}] in English and [{whom}] in Chinese",
		},
		{"no text", "a: 1", "a: x", "text/en.yaml: a must be a text, is 1"},
		{"no YAML", "a: [", "a: x", "text/en.yaml: "},
	} {
		if _, err := ReadTexts(catalogueOf(row.en, row.zh), "text"); err == nil ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestSay(t *testing.T) {
	t.Parallel()
	texts, err := ReadTexts(catalogueOf(
		"{pool: '{used} of {size} in use', nodes: '{when} they have {values}', waited: 'waited {for}'}",
		"{pool: '{size} 个中 {used} 个在用', nodes: '{when}有 {values}', waited: '等了 {for}'}"), "text")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		key   string
		pairs []any
		want  Text
	}{
		{"pool", []any{"used", 4, "size", 5}, Text{"4 of 5 in use", "5 个中 4 个在用"}},
		{
			"nodes",
			[]any{"when", Text{"now", "现在"}, "values", []string{"{when}", "b"}},
			Text{"now they have [{when} b]", "现在有 [{when} b]"},
		},
		{"waited", []any{"for", 1234567 * time.Microsecond}, Text{"waited 1.235s", "等了 1.235s"}},
	} {
		if got, err := texts.Say(row.key, row.pairs...); err != nil || got != row.want {
			t.Errorf("%s: %q, %v, want %q", row.key, got, err, row.want)
		}
	}
	for _, row := range []struct {
		key   string
		pairs []any
	}{
		{"nothing", nil},
		{"pool", []any{"used", 4}},
		{"pool", []any{"used", 4, "length", 5}},
		{"waited", []any{"for", 1, "more", 2}},
	} {
		if got, err := texts.Say(row.key, row.pairs...); err == nil {
			t.Errorf("%s %v: %q, want an error", row.key, row.pairs, got)
		}
	}
	if under := texts.Under("poo"); len(under) != 0 {
		t.Errorf("a part of a name is no key: %v", under)
	}
}

// Every text of this package is there, is given its values, and is used. Keys that are put together at run time are
// listed here.
func TestTheLabHasItsTexts(t *testing.T) {
	t.Parallel()
	texts, err := phrases.read()
	if err != nil {
		t.Fatal(err)
	}
	used := []string{"case.naive", "case.mended"}
	for _, g := range Groups() {
		used = append(used, "groups."+string(g))
	}
	for _, o := range Outcomes() {
		used = append(used, "outcomes."+string(o)+".word", "outcomes."+string(o)+".means")
		if o.Word().EN != string(o) {
			t.Errorf("the English word of %s is %s", o, o.Word().EN)
		}
	}
	for key, pairs := range said(t) {
		used = append(used, key)
		text, ok := texts[key]
		if !ok {
			t.Errorf("there is no text %s", key)
			continue
		}
		if want := placeholders(text.EN); !slices.Equal(pairs, want) {
			t.Errorf("%s is given %v, and has the placeholders %v", key, pairs, want)
		}
	}
	for key := range texts {
		if !slices.Contains(used, key) {
			t.Errorf("nothing says %s", key)
		}
	}
}

// said returns the literal keys of all calls of say in this package, with the placeholders that are filled in.
func said(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]string)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "say" {
				return true
			}
			key, ok := literal(call.Args[0])
			if !ok {
				return true
			}
			var pairs []string
			for i := 1; i < len(call.Args); i += 2 {
				name, _ := literal(call.Args[i])
				pairs = append(pairs, "{"+name+"}")
			}
			slices.Sort(pairs)
			found[key] = pairs
			return true
		})
	}
	return found
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != gotoken.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// A case has a name in both languages. The English one must stay: files that are kept have it.
func TestACaseIsCalledInBothLanguages(t *testing.T) {
	t.Parallel()
	label := Text{"heeds the loss", "理会锁的丢失"}
	for _, row := range []struct {
		of   Case
		want Text
	}{
		{
			Case{Strategy: "redis-setnx", Store: "mysql", Label: label},
			Text{"redis-setnx on mysql, heeds the loss", "redis-setnx（mysql），理会锁的丢失"},
		},
		{Case{Strategy: "none"}, Text{"none", "none"}},
		{Case{Code: "naive", Label: label}, Text{"naive, heeds the loss", "幼稚代码，理会锁的丢失"}},
		{Case{Code: "probe"}, Text{"probe", "probe"}},
	} {
		if got := row.of.Said(); got != row.want || row.of.String() != row.want.EN {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// A report that was written and read says its cases in both languages, as the run did.
func TestACellReadBackIsInBothLanguages(t *testing.T) {
	written, err := json.Marshal(Cell{Strategy: "redis-setnx", Variant: "heeds the loss", ZH: "丢锁即停"})
	if err != nil {
		t.Fatal(err)
	}
	var read Cell
	if err := json.Unmarshal(written, &read); err != nil {
		t.Fatal(err)
	}
	said := read.Case().Said()
	if !strings.Contains(said.EN, "heeds the loss") || !strings.Contains(said.ZH, "丢锁即停") {
		t.Errorf("%+v", said)
	}
}
