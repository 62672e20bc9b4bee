package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// hostile returns a client of a service that answers so.
func hostile(t *testing.T, serve http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	c, err := NewClient(server.URL, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func inJSON(w http.ResponseWriter, kind string, status int, v any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// size returns how many bytes of texts a reply keeps.
func size(r *Reply) int {
	n := len(r.OrderID) + len(r.Instance) + len(r.Error) + len(r.Problem) + len(r.Location)
	if r.Receipt != nil && r.Batch != nil {
		n += len(r.Batch.ID)
	}
	return n
}

// Whatever a service answers, a reply keeps a bounded number of bytes of it, and says what it left out. An order of
// which it cannot keep the id may have been sold.
func TestRepliesAreKeptWithinBounds(t *testing.T) {
	t.Parallel()
	long, short := strings.Repeat("é", 100<<10), strings.Repeat("é", 10<<10)
	receipt := func(order string, batch any) map[string]any {
		return map[string]any{
			"order_id": order, "sku": "pen", "quantity": 1, "read": 1, "remaining": 0, "version": 0, "epoch": 1,
			"batch": batch,
		}
	}
	for _, row := range []struct {
		name  string
		serve http.HandlerFunc
		want  Outcome
		says  string // in the error
	}{
		{"a name", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Instance", short)
			inJSON(w, "application/json", 200, receipt("o", nil))
		}, Accepted, ""},
		{"an order id", func(w http.ResponseWriter, _ *http.Request) {
			inJSON(w, "application/json", 200, receipt(long, nil))
		}, Unknown, "the order id has 204800 bytes, of which no more than 256 are kept"},
		{"a batch", func(w http.ResponseWriter, _ *http.Request) {
			inJSON(w, "application/json", 200, receipt("o", map[string]any{"id": long, "place": 1, "size": 1}))
		}, Unknown, "the batch id has 204800 bytes, of which no more than 256 are kept"},
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) {
			inJSON(w, "application/problem+json", 409, map[string]string{
				"type": "/problems/sold_out", "detail": long, "order_id": long,
			})
		}, SoldOut, "... (204800 bytes)"},
		{"a refusal that nobody knows", func(w http.ResponseWriter, _ *http.Request) {
			inJSON(w, "application/problem+json", 400, map[string]string{"type": long, "title": long})
		}, Failed, ""},
		{"an unknown outcome", func(w http.ResponseWriter, _ *http.Request) {
			inJSON(w, "application/problem+json", 500, map[string]string{
				"type": "/problems/outcome_unknown", "order_id": long,
			})
		}, Unknown, ""},
		{"a number", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"order_id":"o","quantity":%s}`, strings.Repeat("1", 100<<10))
		}, Unknown, "decode receipt: "},
		{"a redirect", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/"+short)
			w.WriteHeader(http.StatusFound)
		}, Failed, "redirects to /"},
		{"a media type", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/"+strings.Repeat("x", 20<<10))
			w.WriteHeader(http.StatusBadGateway)
		}, Unknown, "status 502 with text/xxx"},
		{"a body", func(w http.ResponseWriter, _ *http.Request) {
			inJSON(w, "application/json", 200, strings.Repeat("x", maxReply))
		}, Unknown, "no whole reply: it is longer than 524288 bytes"},
		{"a header", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Instance", long)
		}, Unknown, "no whole reply: "},
	} {
		c := hostile(t, row.serve)
		r := c.Deduct(t.Context(), Request{Endpoint: "/deduct", SKU: "pen", Quantity: 1, RequestID: "r"})
		if r.Outcome != row.want || !strings.Contains(r.Error, row.says) || size(&r) > 3*maxText ||
			!utf8.ValidString(r.Error+r.Instance+r.Problem) || (r.Receipt != nil) != (r.Outcome == Accepted) {
			t.Errorf("%s: %d bytes: %+v", row.name, size(&r), r)
		}
	}
}

// A service that has a new name for each reply has a bounded number of them.
func TestDifferentTextsAreKeptWithinBounds(t *testing.T) {
	t.Parallel()
	n := 0
	c := hostile(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		w.Header().Set("X-Instance", fmt.Sprint("app-", n))
		w.WriteHeader(http.StatusTeapot)
	})
	seen := make(map[string]int)
	for range maxNames + 50 {
		seen[c.Deduct(t.Context(), Request{Endpoint: "/deduct", SKU: "pen", Quantity: 1}).Instance]++
	}
	if len(seen) != maxNames+1 || seen["app-1"] != 1 || seen["(more than 1000 different ones)"] != 50 {
		t.Errorf("%d names, %v", len(seen), seen["(more than 1000 different ones)"])
	}
	kept := textPool{most: 2}
	for _, row := range [][2]string{
		{"a", "a"}, {"", ""}, {"b", "b"}, {"c", "(more than 2 different ones)"}, {"a", "a"}, {"", ""},
	} {
		if got := kept.keep(row[0]); got != row[1] {
			t.Errorf("%q is kept as %q, want %q", row[0], got, row[1])
		}
	}
}

// The evidence of a service is bounded, too: what it says of the stock, and the list of its orders.
func TestEvidenceIsKeptWithinBounds(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10)
	order := func(id string) map[string]any {
		return map[string]any{"order_id": id, "instance": long, "request_id": long}
	}
	pages := 0
	c := hostile(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/stock/pen":
			inJSON(w, "application/json", 200, map[string]any{"sku": "pen", "store": long, "guard": long})
		case "/v1/stock/cup":
			inJSON(w, "application/json", 200, map[string]any{"sku": long})
		case "/v1/stock/hat":
			inJSON(w, "application/problem+json", 500, map[string]any{"type": long, "detail": long})
		case "/v1/stock/pen/orders":
			inJSON(w, "application/json", 200, map[string]any{"orders": []any{order("a"), order("b")}})
		case "/v1/stock/cup/orders":
			inJSON(w, "application/json", 200, map[string]any{"orders": []any{order(long)}})
		case "/v1/stock/hat/orders":
			pages++
			inJSON(w, "application/json", 200, map[string]any{
				"orders": []any{order(fmt.Sprint("a", pages)), order(fmt.Sprint("b", pages))},
				"next":   fmt.Sprint(pages),
			})
		case "/v1/stock/cap/orders":
			inJSON(w, "application/json", 200, map[string]any{"orders": []any{}, "next": long})
		}
	})
	c.most = 3
	s, err := c.Stock(t.Context(), "", "pen")
	if err != nil || len(s.Store) > maxText || len(s.Guard) > maxText {
		t.Errorf("store %d, guard %d bytes: %v", len(s.Store), len(s.Guard), err)
	}
	orders, err := c.Orders(t.Context(), "", "pen")
	if err != nil || len(orders) != 2 || len(orders[0].Instance) > maxText || len(orders[1].RequestID) > maxText {
		t.Errorf("%d orders: %v", len(orders), err)
	}
	for _, row := range []struct{ sku, says string }{
		{"cup", "an order whose id has 204800 bytes"},
		{"hat", "more than 3 orders"},
		{"cap", "a cursor of 204800 bytes"},
	} {
		if _, err := c.Orders(t.Context(), "", row.sku); err == nil || !strings.Contains(err.Error(), row.says) ||
			len(err.Error()) > 4*maxText {
			t.Errorf("%s: want an error with %q", row.sku, row.says)
		}
	}
	for _, sku := range []string{"cup", "hat"} {
		if _, err := c.Stock(t.Context(), "", sku); err == nil || len(err.Error()) > 4*maxText {
			t.Errorf("%s: an error of %d bytes", sku, len(fmt.Sprint(err)))
		}
	}
}

// The client gives up a target that says nothing, or stops in the middle.
func TestClientGivesUpOnASilentTarget(t *testing.T) {
	t.Parallel()
	for name, serve := range map[string]http.HandlerFunc{
		"silent": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"halfway": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"strategies":[`))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		c := hostile(t, serve)
		c.limit = 500 * time.Millisecond
		_, err := c.Strategies(t.Context())
		_, is := errors.AsType[*TargetError](err)
		if !is || !strings.Contains(err.Error(), "no reply within 500ms") {
			t.Errorf("%s: %v, want a TargetError that says for how long", name, err)
		}
	}
}

// Any reply makes a record that the judge accepts, within the bounds.
func FuzzReply(f *testing.F) {
	for _, body := range []string{
		`{"order_id":"o","sku":"pen","quantity":1,"read":3,"remaining":2,"version":7,"epoch":1,"batch":{"id":"b"}}`,
		`{"type":"/problems/outcome_unknown","order_id":"o","detail":"d","sent":true}`, `[]`, `null`, "", "{",
	} {
		f.Add(200, "application/json", "app-1", body)
		f.Add(503, "application/problem+json; charset=utf-8", "", body)
	}
	c, err := NewClient("localhost", "", 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, kind, instance, body string) {
		ans := &Answer{Status: status, Header: http.Header{
			"Content-Type": {kind}, "X-Instance": {instance}, "Location": {body},
		}, Body: []byte(body)}
		r := Record{
			Seq: 1, Quantity: 1, SentAt: time.Unix(1, 0), DoneAt: time.Unix(1, 0),
			Reply: c.Keep(classify(Request{SKU: "pen", Quantity: 1}, ans)),
		}
		if err := r.check(); err != nil || size(&r.Reply) > 5*maxText {
			t.Errorf("%d bytes: %+v: %v", size(&r.Reply), r.Reply, err)
		}
	})
}
