package mapping_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

const secret = "pa ss/w%rd\"x"

// A shop may repeat everything that it is told. No secret is in what is then shown or kept, not even a part of one that
// was cut off.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Setenv("STOCK_TEST_KEY", secret)
	const text = `
auth: {basic: {user: shop, password: "{{env.STOCK_TEST_KEY}}"}}
set: {path: "/set?key={{env.STOCK_TEST_KEY}}"}
read: {path: "/left/{{env.STOCK_TEST_KEY}}", quantity: told}
deduct:
  path: "/buy/{{sku}}?key={{env.STOCK_TEST_KEY}}"
  headers: {X-Token: "{{token}}"}
  accepted: {status: 200}
  order_id: told
  instance: told
orders: {path: "/orders?{{env.STOCK_TEST_KEY}}", list: list, order_id: told, quantity: n, request_id: told}
`
	file, err := mapping.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for pad := range 130 {
		encoded := base64.StdEncoding.EncodeToString([]byte("shop:" + secret))
		told := strings.Repeat("x", pad) + secret + encoded + "s3cret" + secret
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			quoted, _ := json.Marshal(told)
			w.Header().Set("Location", "/"+url.PathEscape(told))
			w.Header().Set("X-Instance", told)
			switch {
			case r.URL.Path == "/set":
				w.WriteHeader(http.StatusTeapot)
			case strings.HasPrefix(r.URL.Path, "/buy/moved"):
				w.WriteHeader(http.StatusSeeOther)
			case strings.HasPrefix(r.URL.Path, "/buy/strange"):
				w.WriteHeader(http.StatusConflict)
			}
			fmt.Fprintf(w, `{"told":%s,"list":[{"told":%[1]s,"n":1}]}`, quoted)
		}))
		target, err := mapping.NewTarget(server.URL, "s3cret", 1, file)
		if err != nil {
			t.Fatal(err)
		}
		_, set := target.SetStock(t.Context(), "", "x", 9)
		_, read := target.Stock(t.Context(), "", "x")
		orders, _ := target.Orders(t.Context(), "", "x")
		strategies, _ := target.Strategies(t.Context())
		shown := fmt.Sprint(set, read, orders, strategies)
		for _, sku := range []string{"x", "moved", "strange"} {
			kept, _ := json.Marshal(target.Deduct(t.Context(), loadtest.Request{SKU: sku, Quantity: 1, RequestID: "r"}))
			shown += string(kept)
		}
		target.Close()
		server.Close()
		_, gone := target.Stock(t.Context(), "", "x")
		shown += fmt.Sprint(gone)
		if set == nil || read == nil || gone == nil || len(orders) != 1 {
			t.Fatal(set, read, gone, orders)
		}
		for _, part := range []string{secret[:5], "w%", "w%25", "rd\\\"x", encoded[:5], "s3c"} {
			if strings.Contains(shown, part) {
				t.Fatalf("after %d bytes, %q is shown: %s", pad, part, shown)
			}
		}
	}
}

// A header of a section takes the place of one at the top, whatever the case of its name.
func TestInnerHeadersWin(t *testing.T) {
	t.Parallel()
	sent := make(map[string]http.Header)
	target, _ := reach(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent[r.Method] = r.Header }),
		"headers: {X-Key: outer}\nauth: {bearer: outer}"+
			strings.Replace(least, "path: /buy", "path: /buy, headers: {x-key: inner, authorization: Key inner}", 1), 1)
	target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
	_, _ = target.Stock(t.Context(), "", "x")
	for method, want := range map[string]string{"POST": "inner Key inner", "GET": "outer Bearer outer"} {
		if got := sent[method].Get("X-Key") + " " + sent[method].Get("Authorization"); got != want {
			t.Errorf("%s: %q, want %q", method, got, want)
		}
	}
}
