package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	drawnNode  = regexp.MustCompile(`(?m)^ +(\w+)\["([\w/]+)"\]$`)
	drawnArrow = regexp.MustCompile(`(?m)^ +(\w+) --> (\w+)$`)
	mermaid    = regexp.MustCompile("(?s)```mermaid\n(.*?)```")
	walkRow    = regexp.MustCompile("(?m)^\\| \\[([\\w./]+)\\]\\(\\.\\./([\\w./]+)\\) \\| `([\\w.]+)` \\|")
)

// servicePackages lists the packages that the picture of docs/architecture.md must show: those of the running service.
func servicePackages() []string {
	return []string{
		"app", "handler", "handler/demo", "handler/orders", "service", "service/strategy", "repo", "repo/stock",
		"repo/ledger", "lock", "lock/local", "lock/redislock", "lock/zklock", "lock/mysqllock", "app/health",
		"app/metrics", "repo/gate", "internal/mysqlerr",
	}
}

// The picture of the packages shows the whole service, and no arrow that arch_test.go forbids.
func TestArchitecturePicture(t *testing.T) {
	allowed := allowedArrows(t)
	_, appIsKnown := allowed["app"]
	for _, name := range []string{"docs/architecture.md", "docs/architecture.zh-CN.md"} {
		pictures := mermaid.FindAllStringSubmatch(document(t, name), -1)
		if len(pictures) != 1 {
			t.Fatalf("%s has %d pictures, want 1", name, len(pictures))
		}
		packages := make(map[string]string) // by the name in the picture
		var shown []string
		for _, node := range drawnNode.FindAllStringSubmatch(pictures[0][1], -1) {
			packages[node[1]] = node[2]
			shown = append(shown, node[2])
		}
		for _, pkg := range servicePackages() {
			if !slices.Contains(shown, pkg) {
				t.Errorf("%s does not show %s", name, pkg)
			}
		}
		arrows := drawnArrow.FindAllStringSubmatch(pictures[0][1], -1)
		if len(arrows) != strings.Count(pictures[0][1], "-->") {
			t.Errorf("%s: not every arrow has the form \"a --> b\" on a line of its own", name)
		}
		for _, arrow := range arrows {
			from, to := packages[arrow[1]], packages[arrow[2]]
			if !appIsKnown && (from == "app" || to == "app") {
				continue
			}
			if may, known := allowed[from]; !known || !slices.Contains(may, to) {
				t.Errorf("%s draws %q, which arch_test.go does not allow", name, arrow[0])
			}
		}
	}
}

// Every stop of the walk exists: the file, and the function in it.
func TestArchitectureWalk(t *testing.T) {
	for _, name := range []string{"docs/architecture.md", "docs/architecture.zh-CN.md"} {
		stops := walkRow.FindAllStringSubmatch(document(t, name), -1)
		if len(stops) == 0 || len(stops) > 7 {
			t.Errorf("%s walks through %d files, want 1 to 7", name, len(stops))
		}
		for _, stop := range stops {
			text, file, function := stop[1], stop[2], stop[3]
			if text != file {
				t.Errorf("%s: %s leads to %s", name, text, file)
			}
			if !declares(t, file, function) {
				t.Errorf("%s: %s has no function %s", name, file, function)
			}
		}
	}
}

// declares reports whether a Go file declares the function or method, as Name or Receiver.Name.
func declares(t *testing.T, file, function string) bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, document(t, file), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			receiver := f.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if named, ok := receiver.(*ast.Ident); ok {
				name = named.Name + "." + name
			}
		}
		if name == function {
			return true
		}
	}
	return false
}

// allowedArrows reads the table of arch_test.go: for every package those that it may import.
func allowedArrows(t *testing.T) map[string][]string {
	t.Helper()
	const file = "arch_test.go"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, document(t, file), 0)
	if err != nil {
		t.Fatal(err)
	}
	allowed := make(map[string][]string)
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "arrows" || len(spec.Values) != 1 {
			return true
		}
		table, ok := spec.Values[0].(*ast.CompositeLit)
		if !ok {
			return false
		}
		for _, row := range table.Elts {
			if row, ok := row.(*ast.KeyValueExpr); ok {
				if rule, ok := row.Value.(*ast.CompositeLit); ok {
					allowed[literals(row.Key)[0]] = literals(rule.Elts[0])
				}
			}
		}
		return false
	})
	if len(allowed) == 0 {
		t.Fatalf("%s has no table of arrows", file)
	}
	return allowed
}

// literals returns the strings in an expression.
func literals(e ast.Expr) (found []string) {
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			if s, err := strconv.Unquote(l.Value); err == nil {
				found = append(found, s)
			}
		}
		return true
	})
	return found
}
