package handler_test

import (
	"encoding/json"
	"fmt"
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
	Servers, Tags []struct{ URL, Name string }
	Paths         map[string]map[string]json.RawMessage
	Components    map[string]map[string]json.RawMessage
}

type operation struct {
	OperationID string `json:"operationId"`
	Tags        []string
	Responses   map[string]json.RawMessage
}

// operations are those of the document by "METHOD /path".
func operations(t *testing.T, url string) (document, map[string]operation) {
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
	_, found := operations(t, url)
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
			t.Errorf("there is a route %s: describe it in openapi.json", route)
		}
	}
	for name := range found {
		if !slices.Contains(routes, name) {
			t.Errorf("openapi.json describes %s, and there is no such route", name)
		}
	}
}

// Every operation has a tag that is explained and an id of its own, and no name stands for two things: generators of
// clients make one type of each.
func TestTheDocumentIsOrderly(t *testing.T) {
	url, _ := everyRoute(t)
	d, found := operations(t, url)
	if len(d.Servers) == 0 {
		t.Error("no servers")
	}
	ids := make(map[string]string)
	for name, o := range found {
		if other := ids[o.OperationID]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, o.OperationID)
		}
		ids[o.OperationID] = name
		explained := func(tag string) bool {
			return slices.ContainsFunc(d.Tags, func(known struct{ URL, Name string }) bool { return known.Name == tag })
		}
		if len(o.Tags) != 1 || !explained(o.Tags[0]) {
			t.Errorf("%s has the tags %v, want one of those that the document explains", name, o.Tags)
		}
	}
	kinds := make(map[string]string)
	for _, kind := range []string{"parameters", "schemas"} {
		for name := range d.Components[kind] {
			if other := kinds[name]; other != "" {
				t.Errorf("components/%s and components/%s have both a %s", other, kind, name)
			}
			kinds[name] = kind
		}
	}
}

// What an operation answers to a request that cannot be decoded is in the document.
func TestTheDocumentHasTheAnswersToBadRequests(t *testing.T) {
	url, _ := everyRoute(t)
	_, found := operations(t, url)
	in := strings.NewReplacer("{sku}", "stock", "{strategy}", "redis-watchdog", "{key}", "stock", "{request}", "r:2",
		"{name}", "sold_out")
	for name, o := range found {
		method, path, _ := strings.Cut(name, " ")
		for what, r := range map[string]reply{
			"a body too large": ask(t, method, url+in.Replace(path), strings.Repeat("x", handler.MaxBody+1),
				"Content-Type", asJSON, "Authorization", "Bearer "+token),
			"a body encoded": ask(t, method, url+in.Replace(path), "x", "Content-Encoding", "gzip", "Authorization",
				"Bearer "+token),
			"no JSON": ask(t, method, url+in.Replace(path), "x", "Content-Type", asJSON, "Authorization",
				"Bearer "+token),
			"nobody":      ask(t, method, url+in.Replace(path), ""),
			"an odd name": ask(t, method, url+in.Replace(path)+"?odd=1", ""),
		} {
			if _, ok := o.Responses[fmt.Sprint(r.StatusCode)]; !ok {
				t.Errorf("%s: %s is answered %d, which openapi.json does not say of it", name, what, r.StatusCode)
			}
		}
	}
}

// engines are gin's, of both listeners.
func engines() []*gin.Engine {
	c := config(&fakeService{}, func(c *handler.Config) { c.Lab, c.Pauses = true, &pausedSale{} })
	return []*gin.Engine{handler.Engine(handler.New(c)), handler.Engine(handler.NewAdmin(c))}
}
