package mapping

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

const anyShop = `
read: {path: "/left/{{sku}}", quantity: n}
deduct:
  path: "/buy/{{sku}}"
  accepted: {status: 2xx, field: ok, equals: true}
  sold_out: {status: 409}
  order_id: id
  instance: node
  remaining: left
orders: {path: "/orders/{{sku}}?c={{cursor}}", list: items, next: next, order_id: id, quantity: n, request_id: ref}
`

// Whatever a shop answers, a bounded part of it is kept, and what is left out is said.
func TestWhatIsKeptOfAShop(t *testing.T) {
	t.Parallel()
	file, err := Parse([]byte(anyShop))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 100<<10)
	page := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/buy/node":
			fmt.Fprintf(w, `{"ok":true,"id":1,"left":5,"node":%q}`, long)
		case "/buy/id":
			fmt.Fprintf(w, `{"ok":true,"left":5,"id":%q}`, long)
		case "/buy/left":
			fmt.Fprintf(w, `{"ok":true,"id":1,"left":%q}`, long)
		case "/left/number":
			fmt.Fprintf(w, `{"n":%s}`, strings.Repeat("7", 1<<20))
		case "/orders/id":
			fmt.Fprintf(w, `{"items":[{"id":%q,"n":1}]}`, long)
		case "/orders/ref":
			fmt.Fprintf(w, `{"items":[{"id":1,"n":1,"ref":%q}]}`, long)
		case "/orders/next":
			fmt.Fprintf(w, `{"items":[],"next":%q}`, long)
		case "/orders/endless":
			page++
			fmt.Fprintf(w, `{"items":[{"id":%d,"n":1}],"next":%d}`, page, page)
		}
	}))
	defer server.Close()
	target, err := NewTarget(server.URL, "", 1, file)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	target.most = 3
	for sku, want := range map[string]loadtest.Reply{
		"node": {Outcome: loadtest.Accepted},
		"id":   {Outcome: loadtest.Unknown, Error: "the order id has 102400 bytes, of which no more than 256 are kept"},
		"left": {Outcome: loadtest.Unknown, Error: "which is no whole number (remaining)"},
	} {
		target.skus[sku] = &past{initial: 9}
		got := target.Deduct(t.Context(), loadtest.Request{SKU: sku, Quantity: 1, RequestID: "r"})
		if got.Outcome != want.Outcome || !strings.Contains(got.Error, want.Error) ||
			len(got.OrderID)+len(got.Instance)+len(got.Error) > 2<<10 {
			t.Errorf("%s: %+v", sku, got)
		}
	}
	if _, err := target.Stock(t.Context(), "", "number"); err == nil || len(err.Error()) > 2<<10 {
		t.Errorf("a number of a million digits: an error of %d bytes", len(fmt.Sprint(err)))
	}
	for sku, want := range map[string]string{
		"id":      "an order id of 102400 bytes at id, of which no more than 256 are kept (orders.order_id)",
		"next":    "a cursor of 102400 bytes at next (orders.next)",
		"endless": "more than 3 orders",
	} {
		if _, err := target.Orders(t.Context(), "", sku); err == nil || !strings.Contains(err.Error(), want) ||
			len(err.Error()) > 2<<10 {
			t.Errorf("%s: %v", sku, err)
		}
	}
	orders, err := target.Orders(t.Context(), "", "ref")
	if err != nil || len(orders) != 1 || len(orders[0].RequestID) > 1<<10 {
		t.Errorf("%d orders: %v", len(orders), err)
	}
}

// Any reply has one meaning, and only a sale has a receipt.
func FuzzMeaning(f *testing.F) {
	file, err := Parse([]byte(anyShop))
	if err != nil {
		f.Fatal(err)
	}
	target, err := NewTarget("localhost", "", 0, file)
	if err != nil {
		f.Fatal(err)
	}
	target.skus["x"] = &past{initial: 100}
	for _, body := range []string{
		`{"ok":true,"id":"a","left":9}`, "\ufeff" + `{"ok":true,"id":1.0,"left":"9.00"}`, `{"ok":null}`, `[{"id":[]}]`,
		"", "{", `{"ok":true,"id":"a","left":101}`, `{"ok":true,"id":"a","left":-1e18}`,
	} {
		f.Add(200, "application/json", body)
		f.Add(409, "text/html", body)
	}
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		ans := &loadtest.Answer{Status: status, Header: http.Header{"Content-Type": {kind}}, Body: []byte(body)}
		p := &purchase{Target: target, request: loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"}}
		reply := turn{source: source{doc: document(ans.Body), header: ans.Header}}
		reply.Reply = target.classify(&target.deduct[0], reply.source, ans)
		p.conclude(0, reply)
		got := p.reply
		accepted := got.Outcome == loadtest.Accepted
		if got.Outcome == "" || accepted != (got.Receipt != nil) || accepted && got.OrderID == "" ||
			accepted && !got.Blind && (got.Read > 100 || got.Remaining != got.Read-1) {
			t.Errorf("%+v", got)
		}
	})
}
