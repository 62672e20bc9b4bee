package handler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/rediserr"
	"example.com/stock/internal/words/wordstest"
	"example.com/stock/service"
)

// Every problem says what it is in both languages, and the catalogue has nothing else.
func TestEveryProblemHasItsTexts(t *testing.T) {
	t.Parallel()
	made := []string{"reason.", "down."}
	seen := make(map[string]bool)
	for _, row := range table(Crowded{}) {
		if key := row.kind.name + ".title"; !seen[key] {
			seen[key] = true
			made = append(made, key)
		}
	}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"Say": {}, "text": {}, "textWith": {At: 2}}, made...)
}

// Each reason for which the domain or this package calls a request invalid is in the catalogue, and each of the
// catalogue is given somewhere.
func TestEveryReasonIsInBothLanguages(t *testing.T) {
	t.Parallel()
	given := make(map[string]bool)
	for _, dir := range []string{".", "demo", "orders", "../service", "../service/order"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(err, files)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, text := range reasonsIn(t, name, "InvalidError") {
				said := Reason(text)
				if said.ZH == said.EN {
					t.Errorf("%s: no Chinese for %q", name, text)
				}
				given[reasons.Key(text)] = true
			}
		}
	}
	if len(given) < 30 {
		t.Errorf("only %d reasons were found", len(given))
	}
	texts, err := phrases.Texts()
	if err != nil {
		t.Fatal(err)
	}
	for key := range texts.Under("reason") {
		if !given[key] {
			t.Errorf("nothing is invalid for %s", key)
		}
	}
}

var verb = regexp.MustCompile(`%[.0-9]*[a-z]`)

// Each reason for which a server is down is in the catalogue.
func TestEveryDownReasonIsInBothLanguages(t *testing.T) {
	t.Parallel()
	var all []string
	for _, m := range mysqlerr.Meanings() {
		if m.Reason != "" {
			all = append(all, m.Reason)
		}
	}
	for _, m := range rediserr.Meanings() {
		all = append(all, m.Reason)
	}
	dirs := []string{
		"lock/redislock", "lock/zklock", "lock/mysqllock", "app", "app/health", "repo", "service", "service/strategy",
	}
	for _, dir := range dirs {
		files, err := filepath.Glob("../" + dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(err, files)
		}
		for _, name := range files {
			if !strings.HasSuffix(name, "_test.go") {
				all = append(all, reasonsIn(t, name, "DownError")...)
			}
		}
	}
	if len(all) < 40 {
		t.Errorf("only %d reasons were found", len(all))
	}
	for _, text := range all {
		if said := downs.Text(text); said.ZH == said.EN && strings.Trim(text, "7") != "" {
			t.Errorf("no Chinese for %q", text)
		}
	}
	for english, chinese := range map[string]string{
		"no answer within 800ms": "800ms 内没有响应",
		"its cluster is down: 2 of 16384 slots are not served (0-1)": "它的 Cluster 不可用：16384 个槽中有 2 个" +
			"没有节点提供（0-1）",
		"1 of 5 nodes count, 3 must: node 1 cannot be reached": "5 个节点中只有 1 个算数，至少要 3 个：" +
			"node 1 cannot be reached",
	} {
		if got := downs.Text(english); got.EN != english || got.ZH != chinese {
			t.Errorf("%q: %q", english, got.ZH)
		}
	}
}

// reasonsIn returns the reasons of the errors of a type that a file makes, with something in place of each value.
func reasonsIn(t *testing.T, name, kind string) (texts []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var value func(ast.Expr) string
	value = func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.BasicLit:
			if text, err := strconv.Unquote(e.Value); err == nil {
				return text
			}
		case *ast.BinaryExpr:
			return value(e.X) + value(e.Y)
		case *ast.CallExpr:
			if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
				return verb.ReplaceAllString(value(e.Args[0]), "7")
			}
		case *ast.SelectorExpr, *ast.Ident: // said elsewhere
		}
		return "7"
	}
	add := func(e ast.Expr) {
		if text := value(e); text != "7" {
			texts = append(texts, text)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			is := false
			switch made := n.Type.(type) {
			case *ast.Ident:
				is = made.Name == kind
			case *ast.SelectorExpr:
				is = made.Sel.Name == kind
			}
			if !is || len(n.Elts) != 2 {
				return true
			}
			reason := n.Elts[1]
			if named, ok := reason.(*ast.KeyValueExpr); ok {
				reason = named.Value
			}
			add(reason)
		case *ast.CallExpr: // of the functions that make one of their argument
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "bad" && kind == "InvalidError" && len(n.Args) == 1 {
				add(n.Args[0])
			}
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Absent" && len(n.Args) == 2 {
				add(n.Args[1])
			}
		}
		return true
	})
	return texts
}

// The values of a reason are said in Chinese, too; the English is the one of the domain, whatever is in it.
func TestAReasonKeepsItsValues(t *testing.T) {
	t.Parallel()
	for english, chinese := range map[string]string{
		"must be from 1 to 100":                      "须在 1 到 100 之间",
		"must be a whole number from 1 to 1000000":   "须为 1 到 1000000 之间的整数",
		"must have at most 64 characters, has 65":    "最多 64 个字符，现有 65 个",
		"must have from 1 to 64 bytes, has 65":       "须有 1 到 64 字节，现有 65 字节",
		"is unknown here; known are {a} to b":        "在这里不认识；认识的有 {a} to b",
		"must ask for at most 9 of book, all in all": "每种商品合计最多 9 件，book 超出了",
		"something that nobody translated":           "something that nobody translated",
	} {
		if got := Reason(english); got.EN != english || got.ZH != chinese {
			t.Errorf("%q: %q, %q", english, got.EN, got.ZH)
		}
	}
	p := explainInvalid(&service.InvalidError{Field: "quantity", Reason: "must be from 1 to 9"})
	if p.detail.EN != "quantity must be from 1 to 9" || p.detail.ZH != "quantity 须在 1 到 9 之间" {
		t.Errorf("%v", p.detail)
	}
}
