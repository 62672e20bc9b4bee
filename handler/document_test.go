package handler_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/gin-gonic/gin"
	"github.com/santhosh-tekuri/jsonschema/v6"

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
	schemas *jsonschema.Compiler
}

type operation struct {
	OperationID string `json:"operationId"`
	Security    []any
	Responses   map[string]struct {
		Ref string `json:"$ref"`
	}
}

// served is the document as it is served. It is asked for once: to make and read it for each reply took two thirds of
// the time of all tests.
var served = sync.OnceValues(func() (d document, err error) {
	w := httptest.NewRecorder()
	build(&fakeService{}, nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", http.NoBody))
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		return d, err
	}
	whole, err := jsonschema.UnmarshalJSON(w.Body)
	d.schemas = jsonschema.NewCompiler()
	return d, errors.Join(err, d.schemas.AddResource("openapi.json", whole))
})

// documented returns the document, and its operations by "METHOD /path".
func documented(t *testing.T) (document, map[string]operation) {
	t.Helper()
	d, err := served()
	if err != nil {
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

// conform checks a body in JSON against the document: against the schema of its operation and status, or that of a
// problem.
func conform(t *testing.T, r reply) {
	t.Helper()
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	if len(r.body) == 0 || !strings.HasSuffix(media, "json") {
		return
	}
	schema := "/components/responses/Problem"
	_, found := documented(t)
	for name, o := range found {
		method, path, _ := strings.Cut(name, " ")
		parameter := regexp.MustCompile(`\{\w+\}`)
		whole := regexp.MustCompile("^" + parameter.ReplaceAllString(path, "[^/]+") + "$")
		if r.Request.Method != method || !whole.MatchString(r.Request.URL.EscapedPath()) {
			continue
		}
		status := strconv.Itoa(r.StatusCode)
		if response, own := o.Responses[status]; own {
			of := "/paths/" + strings.ReplaceAll(path, "/", "~1") + "/" + strings.ToLower(method)
			schema = cmp.Or(strings.TrimPrefix(response.Ref, "#"), of+"/responses/"+status)
		}
	}
	fits(t, schema+"/content/"+strings.ReplaceAll(media, "/", "~1")+"/schema", r.body)
}

// fits checks a text against a schema of the document.
func fits(t *testing.T, schema string, body []byte) {
	t.Helper()
	d, _ := documented(t)
	compiled, err := d.schemas.Compile("openapi.json#" + schema)
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err == nil {
		err = compiled.Validate(instance)
	}
	if err != nil {
		t.Errorf("does not conform to %s: %v\n%s", schema, err, body)
	}
}

// The document is one of OpenAPI, as programs that generate clients read it.
func TestTheDocumentIsOneOfOpenAPI(t *testing.T) {
	w := record(build(&fakeService{}, nil), http.MethodGet, "/openapi.json", "")
	d, err := openapi3.NewLoader().LoadFromData(w.Body.Bytes())
	if err == nil {
		err = d.Validate(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// Every route is an operation of the document, and the other way round. HEAD goes without saying, where there is GET.
func TestTheDocumentHasEveryRoute(t *testing.T) {
	_, found := documented(t)
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
	_, found := documented(t)
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
	d, _ := documented(t)
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
