package class

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// What is a sentence in each language. Names, such as redis, are the same in both.
var (
	english = regexp.MustCompile(`[a-z]{2,},? [a-z0-9]+`)
	chinese = regexp.MustCompile(`\p{Han}`)
)

// bilingual fails the test unless a refusal says why in both languages.
func bilingual(t *testing.T, what, body string) {
	t.Helper()
	var refused struct {
		Error string
		Said  struct{ EN, ZH string }
	}
	if err := json.Unmarshal([]byte(body), &refused); err != nil || refused.Error == "" {
		t.Errorf("%s: %s", what, body)
		return
	}
	if refused.Said.EN == "" || chinese.MatchString(refused.Said.EN) {
		t.Errorf("%s, in English: %s", what, body)
	}
	if !chinese.MatchString(refused.Said.ZH) || english.MatchString(refused.Said.ZH) {
		t.Errorf("%s, in Chinese: %s", what, body)
	}
}

// Every reason that the code names has a text.
func TestReasonsHaveTexts(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name, _ := call.Fun.(*ast.Ident)
			place, named := map[string]int{"refuse": 2, "wrong": 1, "reasonText": 0}[fmt.Sprint(name)]
			if !named {
				return true
			}
			if text, ok := call.Args[place].(*ast.BasicLit); ok { // other reasons come from such calls
				reason, _ := strconv.Unquote(text.Value)
				found[reason] = true
			}
			return true
		})
	}
	texts, err := phrases.Texts()
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range slices.Sorted(maps.Keys(found)) {
		text, ok := texts["reason_"+reason]
		if !ok || !chinese.MatchString(text.ZH) || text.EN == "" {
			t.Errorf("%s: %q", reason, text)
		}
	}
	if len(found) < 20 {
		t.Errorf("%d reasons, which cannot be all: %v", len(found), found)
	}
}

// What the teacher asks for in vain is refused in both languages, and so is what an instance refuses.
func TestRefusalsAreInBothLanguages(t *testing.T) {
	c := doors(t)
	wall := visit(t, c.wallBase())
	if status, text := wall.ask("POST", "/api/enter", fmt.Sprintf(`{"token":%q}`, c.wall.token)); status != 200 {
		t.Fatal(status, text)
	}
	for _, order := range []string{
		`{"do":"what"}`, `{"do":"fire"}`, `{"do":"rate"}`, `{"do":"rate","plan":{"strategy":"none","rate":0}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":0}}`, `{"do":"fire","plan":{"strategy":"none","stock":1001}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":1,"requests":101}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":1,"think_ms":-1}}`,
		`{"do":"fire","plan":{"strategy":"none","stock":1,"seconds":-1}}`,
		`{"do":"fire","plan":{"strategy":"nix","stock":1}}`, `{"do":"fire","plan":{"strategy":"none","store":"etcd"}}`,
		`{"do":"stop"}`, `{"do":"more"}`, `{"do":"again","req":"x"}`, `{"do":"again","req":"r1.1"}`,
		`{"do":"hold","req":"r1.1","point":"nowhere"}`, `{"do":"hold","req":"r1.1","point":"after_read"}`,
		`{"do":"go","req":"r1.1"}`, `{"do":"scene","scene":"nix"}`, `{"do":"fault","server":"nix","act":"kill"}`, `{`,
	} {
		status, text := wall.ask("POST", "/api/do", order)
		if status != 400 {
			t.Errorf("%s: %d", order, status)
		}
		bilingual(t, order, text)
	}
	for _, path := range []string{"/api/replay", "/api/replay.html"} {
		status, text := wall.ask("GET", path, "")
		if status != 404 {
			t.Errorf("%s: %d", path, status)
		}
		bilingual(t, path, text)
	}
	students := visit(t, c.schoolBase())
	for _, path := range []string{"/join", "/buy", "/vote"} {
		_, text := students.ask("POST", path, `{"code":"x","name":""}`)
		bilingual(t, path, text)
	}

	// What an instance refuses, and that there is none.
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"type":"/problems/backend_down","title":"A backend is down","status":503,`+
			`"detail":"redis is down: timeout"}`)
	}))
	client, err := loadtest.NewClient(instance.URL, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	refused := func() (said string) {
		t.Helper()
		_, err := client.SetStock(t.Context(), "redis", "a", 1)
		w := httptest.NewRecorder()
		refuseFor(w, err)
		bilingual(t, fmt.Sprint(err), w.Body.String())
		return w.Body.String()
	}
	if said := refused(); !strings.Contains(said, "redis 不可用") || !strings.Contains(said, "redis is down") {
		t.Error(said)
	}
	instance.Close()
	if said := refused(); !strings.Contains(said, instance.URL) {
		t.Error(said)
	}
}
