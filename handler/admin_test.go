package handler_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// Of every operation the document says whether it needs the admin token, and it does.
func TestTheDocumentSaysWhatNeedsTheToken(t *testing.T) {
	url, _ := everyRoute(t)
	d, found := operations(t, url)
	in := strings.NewReplacer("{sku}", "stock", "{strategy}", "redis-watchdog", "{key}", "stock", "{request}", "r:2",
		"{name}", "sold_out", "{order_id}", "x")
	guarded := 0
	for name, o := range found {
		method, path, _ := strings.Cut(name, " ")
		var said struct{ Security []map[string][]string }
		if err := json.Unmarshal(d.Paths[path][strings.ToLower(method)], &said); err != nil {
			t.Fatal(err)
		}
		needs := len(said.Security) == 1 && said.Security[0]["admin"] != nil
		if needs {
			guarded++
		}
		// Lab fields of a deduction need the token, too, so 401 is among its answers.
		if _, answers := o.Responses["401"]; needs && !answers {
			t.Errorf("%s needs the token, and its answers lack 401", name)
		}
		for _, authorization := range []string{"", "Bearer wrong"} {
			r := ask(t, method, url+in.Replace(path)+"?odd=1", "", "Authorization", authorization)
			if needs {
				wantProblem(t, r, http.StatusUnauthorized, "unauthorized")
			} else if r.StatusCode == http.StatusUnauthorized {
				t.Errorf("%s wants the token, and the document does not say so", name)
			}
		}
	}
	if guarded < 8 {
		t.Errorf("%d operations need the token", guarded)
	}
}

// Every token counts while they are rotated. One in the query is not read, and two headers are refused, because a proxy
// may have looked at the other one.
func TestWhereTheTokenIs(t *testing.T) {
	d := &fakeService{stock: func(sku service.SKU) (service.Stock, error) { return service.Stock{SKU: sku}, nil }}
	url := serve(t, d, func(c *handler.Config) {
		c.Admins = admins("old", "new")
	}).URL + "/v1/stock/a?quantity=1"
	put := func(url string, header ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header["Authorization"] = header
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		return reply.StatusCode
	}
	for _, header := range []string{"Bearer old", "Bearer new", "bearer  new"} {
		if got := put(url, header); got != http.StatusOK {
			t.Errorf("%s: %d", header, got)
		}
	}
	if got := put(url, "Bearer old", "Bearer old"); got != http.StatusUnauthorized {
		t.Errorf("two headers: %d", got)
	}
	if got := put(url + "&access_token=old"); got != http.StatusUnauthorized {
		t.Errorf("in the query: %d", got)
	}
	if got := put(url, "Bearer older"); got != http.StatusUnauthorized {
		t.Errorf("a token that is none: %d", got)
	}
}
