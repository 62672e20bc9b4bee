package scenario

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/words"
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
)

var program stacktest.Program

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func all(t *testing.T) []lab.Scenario {
	t.Helper()
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Quick scenarios come out as predicted, with evidence: every twelfth, and none for which a cluster must be started.
// make lab runs all.
func TestQuick(t *testing.T) {
	t.Parallel()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	o := lab.Options{Binary: path, Parent: t.TempDir()}
	quick := slices.DeleteFunc(all(t), func(s lab.Scenario) bool {
		return s.Slow || slices.Contains(s.Needs, lab.NeedGalera)
	})
	for i := 0; i < len(quick); i += 12 {
		s := quick[i]
		s.Cases = s.Cases[:1]
		o.Scenarios = append(o.Scenarios, s)
	}
	report, err := lab.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, c := range report.Cells {
		switch {
		case c.Skipped != "" && os.Getenv("REQUIRE_BACKENDS") == "1":
			t.Errorf("REQUIRE_BACKENDS=1, but %s: %s: %s", c.Scenario, c.Case(), c.Skipped)
		case c.Skipped != "":
			continue
		case !c.AsPredicted || c.Before != "":
			t.Errorf("%s: %s: %s %s\n%+v", c.Scenario, c.Case(), c.Verdict(), c.Before, c.Evidence)
		}
		if len(c.Evidence) == 0 || len(c.Events) == 0 {
			t.Errorf("%s: %s: %d pieces of evidence, %d events", c.Scenario, c.Case(), len(c.Evidence), len(c.Events))
		}
		// Code of the lab may have no orders, and its books suffice.
		proof := func(e lab.Evidence) bool {
			return e.Kind == lab.Pair || e.Kind == lab.Hold || e.Kind == lab.Balance && c.Code != ""
		}
		if c.Observed == lab.Oversells && !slices.ContainsFunc(c.Evidence, proof) {
			t.Errorf("%s: %s: oversold without a pair of orders, or two holders at once, that prove it", c.Scenario,
				c.Case())
		}
	}
}

var kebab = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// The catalogue says all that it must, in both languages, and names only strategies that there are.
func TestTable(t *testing.T) {
	t.Parallel()
	strategies := strategies(t)
	names := make(map[string]bool)
	for _, s := range all(t) {
		if !kebab.MatchString(s.Name) || len(s.Name) > 40 || names[s.Name] {
			t.Errorf("%q is no name in kebab case with at most 40 letters, or is used twice", s.Name)
		}
		names[s.Name] = true
		if _, err := os.Stat(strings.ReplaceAll(s.Name, "-", "_") + ".go"); err != nil {
			t.Errorf("the file of %s is not named like it: %v", s.Name, err)
		}
		t.Run(s.Name, func(t *testing.T) { checkScenario(t, s, strategies) })
	}
}

// strategies returns the catalogue of an instance, by name.
func strategies(t *testing.T) map[string]lab.Strategy {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	servers, err := stack.Start(t.Context(), stack.Options{
		Options: server.Options{Want: []server.Kind{server.Redis}, Parent: t.TempDir()}, Binary: path, AnyPort: true,
		Env: []string{"STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=1s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := servers.Stop(); err != nil {
			t.Error(err)
		}
	}()
	apps, err := servers.Serve(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(apps[0].URL + "/v1/strategies")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var reply struct{ Strategies []lab.Strategy }
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]lab.Strategy)
	for _, s := range reply.Strategies {
		byName[s.Name] = s
	}
	return byName
}

func checkScenario(t *testing.T, s lab.Scenario, strategies map[string]lab.Strategy) {
	if !slices.Contains(lab.Groups(), s.Group) {
		t.Errorf("group %q", s.Group)
	}
	han := func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	}
	for name, text := range map[string]lab.Text{
		"title": s.Title, "setup": s.Setup, "forced": s.Forced, "why": s.Why, "fix": s.Fix,
	} {
		if text.EN == "" || han(text.EN) {
			t.Errorf("%s in English: %q", name, text.EN)
		}
		if !han(text.ZH) {
			t.Errorf("%s in Chinese: %q", name, text.ZH)
		}
	}
	if (s.Run == nil) == (s.Together == nil) {
		t.Error("it must have one of Run and Together")
	}
	if len(s.Cases) == 0 || len(s.Needs) == 0 {
		t.Error("it has no cases, or no needs")
	}
	cases := make(map[string]bool)
	for _, c := range s.Cases {
		if cases[c.String()] {
			t.Errorf("%s: twice", c)
		}
		cases[c.String()] = true
		if (c.Strategy == "") == (c.Code == "") {
			t.Errorf("%s: must have one of Strategy and Code", c)
		}
		strategy, known := strategies[c.Strategy]
		if c.Strategy != "" && !known {
			t.Errorf("%s: there is no such strategy", c)
		}
		if c.Store != "" && c.Strategy != "" && !slices.Contains(strategy.Stores, c.Store) {
			t.Errorf("%s: it does not work on that store", c)
		}
		f := c.Want
		if f.Outcome == "" && s.Predict != nil && c.Strategy != "" {
			f = s.Predict(c, strategy.Promise)
			if f.From == "" {
				t.Errorf("%s: its forecast does not say what it follows from", c)
			}
		}
		if !slices.Contains(lab.Outcomes(), f.Outcome) {
			t.Errorf("%s: the forecast is %q", c, f.Outcome)
		}
	}
}

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// All that a scenario tells its readers stands in the catalogues: every key that the code says is there and is
// given the values of its placeholders, nothing is there that no scenario says, and no prose is left in the code.
func TestTheCataloguesFitTheCode(t *testing.T) {
	t.Parallel()
	texts, err := words.ReadTexts(textFiles, "text")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for _, s := range all(t) {
		for _, part := range []string{"title", "setup", "forced", "why", "fix"} {
			used["scenarios."+s.Name+"."+part] = true
		}
		for _, c := range s.Cases {
			used["variants."+c.Variant] = true
		}
	}
	code := readCode(t)
	for _, call := range code.said {
		used["says."+call.key] = true
		text, ok := texts["says."+call.key]
		if !ok {
			t.Errorf("%s: there is no text %s", call.at, call.key)
			continue
		}
		want := placeholder.FindAllString(text.EN, -1)
		slices.Sort(want)
		if !slices.Equal(call.placeholders, slices.Compact(want)) {
			t.Errorf("%s: %s is given %v, and has the placeholders %v", call.at, call.key, call.placeholders, want)
		}
	}
	for key := range texts {
		said, _ := strings.CutPrefix(key, "says.")
		if !used[key] && !code.literals[said] {
			t.Errorf("nothing says %s", key)
		}
	}
	if len(code.said) < 100 {
		t.Errorf("only %d texts are said", len(code.said))
	}
	for _, prose := range code.prose {
		t.Error(prose)
	}
}

// keyAt is which argument of a method or function is a key; the pairs follow it.
func keyAt(name string) (i int, ok bool) {
	i, ok = map[string]int{"Evidence": 2, "Note": 1, "Interval": 4, "Event": 1, "Sprung": 1, "holders": 0}[name]
	return i, ok
}

type code struct {
	said     []saying
	literals map[string]bool // every string in the code: a key may be chosen before it is said
	prose    []string
}

type saying struct {
	at, key      string
	placeholders []string
}

// readCode reads the files of this package but its tests.
func readCode(t *testing.T) code {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	c := code{literals: make(map[string]bool)}
	files := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if n != nil {
				c.look(n, files.Position(n.Pos()).String())
			}
			return true
		})
	}
	return c
}

func (c *code) look(n ast.Node, at string) {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, ok := literal(n)
		if !ok {
			return
		}
		c.literals[text] = true
		if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			c.prose = append(c.prose, at+": Chinese in the code: "+text)
		}
	case *ast.CompositeLit:
		if of, ok := n.Type.(*ast.SelectorExpr); ok && of.Sel.Name == "Text" {
			c.prose = append(c.prose, at+": a text in the code")
		}
	case *ast.CallExpr:
		if s, ok := sayingOf(n, at); ok {
			c.said = append(c.said, s)
		}
	}
}

// sayingOf returns the key and the placeholders of a call that says a text. ok is false for any other call, and for one
// whose key is not written there.
func sayingOf(call *ast.CallExpr, at string) (s saying, ok bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return s, false
	}
	i, ok := keyAt(method.Sel.Name)
	if !ok || len(call.Args) <= i {
		return s, false
	}
	key, ok := literal(call.Args[i])
	if !ok {
		return s, false
	}
	s = saying{at: at, key: key}
	for i++; i < len(call.Args); i += 2 {
		name, _ := literal(call.Args[i])
		s.placeholders = append(s.placeholders, "{"+name+"}")
	}
	if method.Sel.Name == "holders" {
		s.placeholders = []string{"{values}"}
	}
	slices.Sort(s.placeholders)
	return s, true
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}
