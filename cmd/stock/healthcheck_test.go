package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Without --url, the instance of this container is asked: at the address of its settings, from wherever they come.
func TestHealthcheckAsksTheAddressOfTheSettings(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("STOCK_CONFIG", file(t, "stock.yaml", "addr: :"+port+"\n"))
	if _, _, err := run(t.Context(), "healthcheck"); err != nil {
		t.Error(err)
	}
	t.Setenv("STOCK_ADDR", "0.0.0.0:"+port)
	if _, _, err := run(t.Context(), "healthcheck"); err != nil {
		t.Error(err)
	}
	t.Setenv("STOCK_ADDR", "127.0.0.1:1")
	if _, _, err := run(t.Context(), "healthcheck"); err == nil {
		t.Error("an address where nobody listens is ready")
	}
}
