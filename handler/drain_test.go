package handler_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// A request that came before the instance drains, and is answered while it does, is the last one on its connection:
// what comes after it would not be answered.
func TestDrainingBeginsDuringARequest(t *testing.T) {
	var draining atomic.Bool
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		draining.Store(true)
		return service.Receipt{}, nil
	}}
	s := serve(t, d, func(c *handler.Config) { c.Draining = draining.Load })
	if r := ask(t, http.MethodGet, s.URL+"/livez", ""); r.Close {
		t.Error("the connection ends although nothing is draining")
	}
	if r := ask(t, http.MethodPost, s.URL+"/deduct_stock_zk?sku=a", ""); r.StatusCode != http.StatusOK || !r.Close {
		t.Errorf("%d %s, connection closed: %v", r.StatusCode, r.body, r.Close)
	}
}
