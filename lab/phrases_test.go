package lab

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// says is which argument of a method is the format.
var says = map[string]int{"Evidence": 2, "Note": 1, "Interval": 4, "event": 1}

// wordless is what reads the same in both languages: statements and commands.
var wordless = regexp.MustCompile(`^[^a-z]*$`)

var verb = regexp.MustCompile(`%[a-z]`)

// formats are those of all calls in this package by which something is said.
func formats(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, name := range files {
		file, err := parser.ParseFile(gotoken.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			list = append(list, formatsIn(t, file)...)
		}
	}
	return list
}

func formatsIn(t *testing.T, file *ast.File) (list []string) {
	t.Helper()
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		i, ok := says[method.Sel.Name]
		if !ok || len(call.Args) <= i {
			return true
		}
		if name, ok := call.Args[i].(*ast.Ident); ok && name.Name == "format" {
			return true // handed on
		}
		literal, ok := call.Args[i].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s without a format that can be translated: %v", method.Sel.Name, call.Args[i])
			return true
		}
		format, err := strconv.Unquote(literal.Value)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, format)
		return true
	})
	return list
}

// What is said in English is said in Chinese, with every argument; and nothing is translated that nobody says.
func TestWhatIsSaidIsInChinese(t *testing.T) {
	left := phrases()
	said := formats(t)
	if len(said) < 100 {
		t.Fatalf("only %d formats were found", len(said))
	}
	for _, format := range said {
		phrase, ok := phrases()[format]
		delete(left, format)
		if !ok {
			if !wordless.MatchString(verb.ReplaceAllString(format, "")) {
				t.Errorf("not in phrases: %q", format)
			}
			continue
		}
		if strings.Count(phrase, "%") != strings.Count(format, "%") {
			t.Errorf("%q is said with other arguments: %q", format, phrase)
		}
	}
	for format := range left {
		t.Errorf("nobody says %q", format)
	}
}

func TestChineseTranslatesItsArguments(t *testing.T) {
	got := chinese("%s the nodes have: %s", []any{Text{"after the jump", "时钟跳变之后"}, "1: value 1"})
	if got != "时钟跳变之后，各节点上有：1: value 1" {
		t.Error(got)
	}
	got = chinese("the pool: %d of %d connections in use, %d waited for one", []any{4, 5, 6})
	if got != "连接池：5 个连接中 4 个在用，6 次等待连接" {
		t.Error(got)
	}
}
