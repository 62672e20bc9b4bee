package handler_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"example.com/stock/service"
)

// BenchmarkDeduct is a sale and its reply without a store and without a connection: what HTTP costs a sale.
func BenchmarkDeduct(b *testing.B) {
	sold := receipt()
	h := build(&fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return sold, nil
	}}, nil)
	r := httptest.NewRequestWithContext(b.Context(), http.MethodPost, "/deduct_stock_zk?sku=a", http.NoBody)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
