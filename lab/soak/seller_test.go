package soak

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"example.com/stock/loadtest"
)

// What may have sold must never count as what has not.
func TestOutcomes(t *testing.T) {
	reply := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	problem := func(status int, name string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"type":"/problems/` + name + `"}`))
		}
	}
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
		want    loadtest.Outcome
		problem string
	}{
		{"a receipt", reply(`{"order_id":"o","read":3,"remaining":1,"version":7,"epoch":2}`), loadtest.Accepted, ""},
		{"a receipt without an order", reply(`{}`), loadtest.Unknown, "broken reply"},
		{"half a receipt", reply(`{"order_id":`), loadtest.Unknown, "broken reply"},
		{"no reply", func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, loadtest.Unknown, "no reply"},
		{"half a reply", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"order`))
		}, loadtest.Unknown, "no whole reply"},
		{"words of a proxy", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
		}, loadtest.Unknown, "broken reply"},
		{"busy", problem(503, "lock_busy"), loadtest.Busy, "lock_busy"},
		{"late", problem(503, "lock_timeout"), loadtest.Busy, "lock_timeout"},
		{"sold out", problem(409, "sold_out"), loadtest.SoldOut, "sold_out"},
		{"unknown", problem(503, "outcome_unknown"), loadtest.Unknown, "outcome_unknown"},
		{"a crash", problem(500, "internal"), loadtest.Unknown, "internal"},
		{"lost", problem(503, "lock_lost"), loadtest.Failed, "lock_lost"},
	} {
		server := httptest.NewServer(row.handler)
		s := newSeller(server.URL)
		got := s.sell(t.Context(), request{endpoint: "/deduct_stock", sku: "s", id: "r", quantity: 2})
		if got.Outcome != row.want || got.Problem != row.problem {
			t.Errorf("%s: %+v, want %s %s", row.name, got, row.want, row.problem)
		}
		s.close()
		server.Close()
		if got := s.sell(t.Context(), request{endpoint: "/deduct_stock"}); got.Outcome != loadtest.Failed ||
			got.Problem != "not sent" {
			t.Errorf("%s: nobody listens: %+v, want failed, not sent", row.name, got)
		}
	}
}

// The seller sends every field of a request.
func TestTheWholeRequestIsSent(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }))
	defer server.Close()
	s := newSeller(server.URL)
	defer s.close()
	s.sell(t.Context(), request{
		endpoint: "/deduct_stock_zk", store: "mysql", sku: "s", id: "r-1", quantity: 3,
		hold: 20e6, ignoreLoss: true,
	})
	want := "/deduct_stock_zk?heed_loss=off&hold=20ms&quantity=3&sku=s&store=mysql"
	if got.Method != http.MethodPost || got.URL.String() != want || got.Header.Get("X-Request-Id") != "r-1" ||
		got.Header.Get("Authorization") != "Bearer "+token {
		t.Errorf("%s %s %v, want POST %s", got.Method, got.URL, got.Header, want)
	}
}
