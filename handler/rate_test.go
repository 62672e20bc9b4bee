package handler_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
	"example.com/stock/service"
	"example.com/stock/service/ratelimit"
)

// A customer who asks too often is told when to ask again. Other customers and operators are served.
func TestCustomersRate(t *testing.T) {
	t.Parallel()
	g := guardedService(t, func(c *options) {
		c.Rate = handler.Rate{
			Limiter: ratelimit.NewMemory(),
			All:     []ratelimit.Policy{{Name: "customer", Every: time.Hour, Burst: 2}},
			Keyed:   []ratelimit.Policy{{Name: "keys", Every: 24 * time.Hour, Burst: 1}},
		}
	})
	route := handler.Route{Method: http.MethodGet, Path: "/v1/stock/:sku"}
	ann := g.bearer(t, claims("ann", access.StockRead))
	for i, want := range []struct {
		status int
		left   string
	}{
		{200, `"customer";r=1;t=3600`}, {200, `"customer";r=0;t=7200`}, {429, `"customer";r=0;t=7200`},
	} {
		r := g.ask(t, route, "", ann...)
		if r.StatusCode != want.status || r.Header.Get("RateLimit") != want.left ||
			r.Header.Get("RateLimit-Policy") != `"customer";q=2;w=7200` {
			t.Errorf("request %d: %d %v", i, r.StatusCode, r.Header)
		}
		if want.status != 429 {
			continue
		}
		if r.problem.Type != "/problems/rate_limited" || r.Header.Get("Retry-After") != "3600" {
			t.Errorf("%+v, Retry-After %q", r.problem, r.Header.Get("Retry-After"))
		}
	}
	if r := g.ask(t, route, "", g.bearer(t, claims("bob", access.StockRead))...); r.StatusCode != http.StatusOK {
		t.Errorf("another customer: %d", r.StatusCode)
	}
	for range 5 {
		r := g.ask(t, route, "", "Authorization", "Bearer "+token)
		if r.StatusCode != http.StatusOK || r.Header.Get("RateLimit") != "" {
			t.Errorf("an operator: %d %v", r.StatusCode, r.Header)
		}
	}

	// Requests with an idempotency key are counted apart, because a store keeps their keys for long.
	cal := append(g.bearer(t, claims("cal", access.StockRead)), service.KeyHeader, "1")
	for i, want := range []struct {
		status int
		left   []string
	}{
		{200, []string{`"customer";r=1;t=3600`, `"keys";r=0;t=86400`}},
		{429, []string{`"customer";r=1;t=3600`, `"keys";r=0;t=86400`}},
	} {
		r := g.ask(t, route, "", cal...)
		if left := r.Header.Values("RateLimit"); r.StatusCode != want.status || !slices.Equal(left, want.left) {
			t.Errorf("request %d with a key: %d %q, want %v", i, r.StatusCode, left, want)
		}
	}
}
