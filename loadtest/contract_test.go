package loadtest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A shop is a stock service in memory: the HTTP contract without a store.
type shop struct {
	token string
	down  string // reason why the strategies are not available
	page  int    // orders per page

	mu     sync.Mutex
	stock  loadtest.Stock
	orders []loadtest.Order
}

// open serves the shop until the test ends. wrap, if not nil, stands in front of it.
func (s *shop) open(t *testing.T, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	return serve(t, s.handler(), wrap)
}

func serve(t *testing.T, handler http.Handler, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	if wrap != nil {
		handler = wrap(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /v1/strategies", s.catalogue)
	mux.HandleFunc("PUT /v1/stock/{sku}", s.set)
	mux.HandleFunc("GET /v1/stock/{sku}", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		reply(w, s.stock)
	})
	mux.HandleFunc("GET /v1/stock/{sku}/orders", s.list)
	mux.HandleFunc("POST /deduct_right", s.deduct)
	return mux
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, name, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).
		Encode(map[string]any{"type": "/problems/" + name, "title": name, "status": status, "detail": detail})
}

func (s *shop) catalogue(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]any{"strategies": []loadtest.Strategy{{
		Name: "right", Endpoint: "/deduct_right", Stores: []string{"redis"}, DefaultStore: "redis",
		Available: s.down == "", Reason: s.down, Promise: loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true},
	}}})
}

func (s *shop) set(w http.ResponseWriter, r *http.Request) {
	if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
		refuse(w, http.StatusUnauthorized, "unauthorized", "An admin token is needed.")
		return
	}
	var in struct{ Quantity int64 }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		refuse(w, http.StatusBadRequest, "invalid", err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = nil
	s.stock = loadtest.Stock{
		SKU: r.PathValue("sku"), Store: r.URL.Query().Get("store"),
		Quantity: in.Quantity, Initial: in.Quantity, Epoch: s.stock.Epoch + 1, Version: s.stock.Version + 1,
	}
	reply(w, s.stock)
}

func (s *shop) list(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	size, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	if s.page > 0 {
		size = s.page
	}
	to, next := from+size, strconv.Itoa(from+size)
	if to >= len(s.orders) {
		to, next = len(s.orders), ""
	}
	reply(w, map[string]any{"orders": s.orders[from:to], "next": next})
}

func (s *shop) deduct(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	quantity, _ := strconv.ParseInt(query.Get("quantity"), 10, 64)
	w.Header().Set("X-Instance", "app-1")

	s.mu.Lock()
	defer s.mu.Unlock()
	acquired := time.Now()
	seen := s.stock
	if seen.Quantity < quantity {
		refuse(w, http.StatusConflict, "sold_out", "too few")
		return
	}
	order := loadtest.Order{
		OrderID: fmt.Sprintf("order-%d", len(s.orders)+1), SKU: query.Get("sku"), Quantity: quantity,
		Read: seen.Quantity, Remaining: seen.Quantity - quantity, Version: seen.Version, Epoch: seen.Epoch,
		Instance: "app-1", RequestID: r.Header.Get("X-Request-Id"), CreatedAt: time.Now(),
	}
	s.orders = append(s.orders, order)
	s.stock.Quantity = order.Remaining
	s.stock.Sold += quantity
	s.stock.Version++
	reply(w, map[string]any{
		"order_id":    order.OrderID,
		"sku":         order.SKU,
		"quantity":    quantity,
		"read":        order.Read,
		"remaining":   order.Remaining,
		"version":     order.Version,
		"epoch":       order.Epoch,
		"instance":    "app-1",
		"waited_ms":   0.1,
		"held_ms":     0.2,
		"acquired_at": acquired,
		"released_at": time.Now(),
		"store":       query.Get("store"),
	})
}

func client(t *testing.T, url, token string, concurrency int) *loadtest.Client {
	t.Helper()
	c, err := loadtest.NewClient(url, token, concurrency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
