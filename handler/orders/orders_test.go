package orders_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/handler/orders"
	"example.com/stock/service/order"
)

// A server is up, or is down with an error.
type server struct{ err error }

func (s server) Err() error        { return s.err }
func (server) Up() context.Context { return context.Background() }

type meter struct{}

func (meter) Request(context.Context, string, string, int, time.Duration) {}
func (meter) Problem(_, _, _ string)                                      {}
func (meter) Ready(bool)                                                  {}

// get answers one request to a shop without a demonstration, on a server.
func get(t *testing.T, on server, path string) *httptest.ResponseRecorder {
	t.Helper()
	shop := orders.New(orders.Config{Orders: order.New(order.Config{Needs: on}), Store: "mysql"})
	h := handler.New(handler.Config{
		Parts: []handler.Part{shop}, Sells: shop.Sells, Meter: meter{}, Log: slog.New(slog.DiscardHandler),
		Draining: func() bool { return false },
	})
	r := httptest.NewRecorder()
	h.ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return r
}

// A shop is ready while orders can be sold.
func TestReady(t *testing.T) {
	for _, row := range []struct {
		on     server
		status int
		says   string
	}{
		{server{}, http.StatusOK, `"ready"`},
		{server{errors.New("it is down")}, http.StatusServiceUnavailable, `"orders cannot be sold"`},
	} {
		r := get(t, row.on, "/readyz")
		said := r.Body.String()
		if r.Code != row.status || !strings.Contains(said, row.says) || strings.Contains(said, "stores") {
			t.Errorf("%v: %d %s, want %d %s", row.on.err, r.Code, said, row.status, row.says)
		}
	}
}

// The document of a shop that stands alone has what it serves: no strategies, and no store to choose.
func TestDocumentOfAShop(t *testing.T) {
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(get(t, server{}, "/openapi.json").Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	for path, served := range map[string]bool{
		"/v1/orders": true, "/v1/stock/{sku}": true, "/v1/stock/{sku}/movements": true, "/readyz": true,
		"/v1/strategies": false, "/v1/stock/{sku}/deduct": false, "/v1/stock/{sku}/orders": false,
	} {
		if _, there := document.Paths[path]; there != served {
			t.Errorf("%s is in the document: %t", path, there)
		}
	}
	if parameters := string(document.Paths["/v1/stock/{sku}"]["parameters"]); strings.Contains(parameters, "Store") ||
		!strings.Contains(parameters, "Sku") {
		t.Errorf("parameters of the stock: %s", parameters)
	}
	if r := get(t, server{}, "/v1/strategies"); r.Code != http.StatusNotFound {
		t.Errorf("strategies: %d", r.Code)
	}
}
