package handler_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
)

var writeRoutes = flag.Bool("write-routes", false, "write the table of scopes into docs/security*.md")

// routesOf is the table of docs/security.md: who may call what.
func routesOf(routes []handler.Route, or, everybody, operator, strategies string) string {
	var order []string
	open := make(map[string][]string)
	seen := make(map[string]bool)
	for _, r := range routes {
		var words []string
		for _, s := range r.Needs {
			words = append(words, "`"+string(s)+"`")
		}
		who := strings.Join(words, or)
		switch {
		case len(r.Needs) == 0:
			who = everybody
		case r.Needs[0] == access.Lab:
			who = operator
		}
		call := "`" + r.Method + " " + r.Path + "`"
		if strings.HasPrefix(r.Path, "/deduct_stock") {
			call = strategies
		}
		if seen[call] {
			continue
		}
		seen[call] = true
		if open[who] == nil {
			order = append(order, who)
		}
		open[who] = append(open[who], call)
	}
	var table strings.Builder
	for _, who := range order {
		table.WriteString("| " + who + " | " + strings.Join(open[who], ", ") + " |\n")
	}
	return table.String()
}

// The guide has the table of routes, in both languages.
func TestTheGuideHasTheRoutes(t *testing.T) {
	routes := guardedService(t, nil).routes
	for file, table := range map[string]string{
		"../docs/security.md": "| scope | opens |\n|---|---|\n" + routesOf(routes, " or ", "everybody",
			"only an operator's token", "the endpoints of strategies"),
		"../docs/security.zh-CN.md": "| 权限范围 | 可以调用 |\n|---|---|\n" + routesOf(routes, " 或 ", "任何人",
			"只有管理令牌", "各策略的端点"),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const begin, end = "<!-- routes: docs/refresh routes -->\n", "<!-- /routes -->"
		before, rest, found := strings.Cut(string(text), begin)
		had, after, ended := strings.Cut(rest, end)
		switch {
		case !found || !ended:
			t.Errorf("%s has no place for the table", file)
		case *writeRoutes:
			if err := os.WriteFile(file, []byte(before+begin+table+end+after), 0o644); err != nil {
				t.Error(err)
			}
		case had != table:
			t.Errorf("%s: the table of routes is another: run docs/refresh routes", file)
		}
	}
}

// Every test that the guide names is there.
func TestTheGuideNamesTests(t *testing.T) {
	var code strings.Builder
	const folders = ". access demo orders ../app ../app/* ../cmd/stock ../deploy ../internal/* ../lock/* ../repo/* " +
		"../service/*"
	for _, folder := range strings.Fields(folders) {
		files, _ := filepath.Glob(folder + "/*_test.go")
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			code.Write(text)
		}
	}
	for _, file := range []string{"../docs/security.md", "../docs/security.zh-CN.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\bTest[A-Z]\w*`).FindAllString(string(text), -1)
		if len(names) < 10 {
			t.Errorf("%s names %d tests", file, len(names))
		}
		for _, name := range names {
			if !strings.Contains(code.String(), "func "+name+"(") {
				t.Errorf("%s: there is no %s", file, name)
			}
		}
	}
}
