package handler_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
)

// A document is what the tests read of /openapi.json.
type document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Schemas struct {
			Problem struct {
				Properties struct{ Type struct{ Enum []string } }
			}
		}
	}
}

type operation struct {
	OperationID string `json:"operationId"`
	Security    []any
}

// documented returns the document, and its operations by "METHOD /path".
func documented(t *testing.T, url string) (document, map[string]operation) {
	t.Helper()
	var d document
	if err := json.Unmarshal(ask(t, http.MethodGet, url+"/openapi.json", "").body, &d); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]operation)
	for path, item := range d.Paths {
		for method, raw := range item {
			var o operation
			if json.Unmarshal(raw, &o) == nil && o.OperationID != "" {
				found[strings.ToUpper(method)+" "+path] = o
			}
		}
	}
	return d, found
}

// Every route is an operation of the document, and the other way round. HEAD goes without saying, where there is GET.
func TestTheDocumentHasEveryRoute(t *testing.T) {
	url, _ := everyRoute(t)
	_, found := documented(t, url)
	parameter := regexp.MustCompile(`:(\w+)`)
	var routes []string
	for _, engine := range engines() {
		for _, route := range engine.Routes() {
			if route.Method != http.MethodHead {
				routes = append(routes, route.Method+" "+parameter.ReplaceAllString(route.Path, "{$1}"))
			}
		}
	}
	for _, route := range routes {
		if _, ok := found[route]; !ok {
			t.Errorf("there is a route %s: describe it in openapi.yaml", route)
		}
	}
	for name := range found {
		if !slices.Contains(routes, name) {
			t.Errorf("openapi.yaml describes %s, and there is no such route", name)
		}
	}
}

// Who has no admin token is refused where the document asks for one, and nowhere else.
func TestTheDocumentSaysWhatNeedsTheToken(t *testing.T) {
	url, _ := everyRoute(t)
	_, found := documented(t, url)
	in := strings.NewReplacer("{sku}", "stock", "{strategy}", "redis-watchdog", "{key}", "stock", "{request}", "r:2",
		"{name}", "sold_out", "{order_id}", order().ID)
	for name, o := range found {
		method, path, _ := strings.Cut(name, " ")
		for _, authorization := range []string{"", "Bearer wrong"} {
			// No route knows the parameter, so that nothing is done where nobody needs a token.
			r := ask(t, method, url+in.Replace(path)+"?odd=1", "", "Authorization", authorization)
			if refused := r.StatusCode == http.StatusUnauthorized; refused != (len(o.Security) > 0) {
				t.Errorf("%s, authorization %q: %d, security in openapi.yaml: %v", name, authorization, r.StatusCode,
					o.Security)
			}
		}
	}
}

// The document names every type of problem that the table has, and no other.
func TestTheDocumentNamesEveryProblem(t *testing.T) {
	url, _ := everyRoute(t)
	d, _ := documented(t, url)
	var known []string
	for _, name := range handler.ProblemNames() {
		known = append(known, "/problems/"+name)
	}
	named := slices.Sorted(slices.Values(d.Components.Schemas.Problem.Properties.Type.Enum))
	known = slices.Compact(slices.Sorted(slices.Values(known)))
	if !slices.Equal(named, known) {
		t.Errorf("the enum of Problem.type in openapi.yaml has\n%s\nand table.go\n%s", named, known)
	}
}

// engines are gin's, of both listeners.
func engines() []*gin.Engine {
	c := config(&fakeService{}, func(c *handler.Config) { c.Lab, c.Pauses = true, &pausedSale{} })
	return []*gin.Engine{handler.Engine(handler.New(c)), handler.Engine(handler.NewAdmin(c))}
}
