package handler_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// Request ids from outside are taken over if they are harmless, and replaced otherwise: they end up in logs and orders.
func TestRequestIDsAreChecked(t *testing.T) {
	url, d := everyRoute(t)
	for id, good := range map[string]bool{
		"a": true, "AZaz09._:-": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a b": false, "a/b": false, `a"b`: false, "a\tb": false,
		"naïve": false, "a{b": false,
		"a,b": false, "a=b": false, "ok;drop": false, "库存": false,
	} {
		d.asked = nil
		r := ask(t, http.MethodPost, url+"/deduct_stock_zk", "", "X-Request-Id", id)
		got := r.Header.Get("X-Request-Id")
		if r.StatusCode != http.StatusOK || (got == id) != good {
			t.Errorf("%q: %d, answered with %q", id, r.StatusCode, got)
		}
		if len(d.asked) != 1 || d.asked[0].RequestID != got {
			t.Errorf("%q: answered with %q, and sold for %+v", id, got, d.asked)
		}
		r = ask(t, http.MethodGet, url+"/nowhere", "", "X-Request-Id", id)
		if !strings.Contains(string(r.body), `"request_id":"`+r.Header.Get("X-Request-Id")+`"`) {
			t.Errorf("%q: the problem carries another: %s", id, r.body)
		}
	}
	first, second := ask(t, http.MethodGet, url+"/livez", ""), ask(t, http.MethodGet, url+"/livez", "")
	if first.Header.Get("X-Request-Id") == second.Header.Get("X-Request-Id") {
		t.Error("two requests without an id have the same")
	}
}

// Every limit is where it is said to be: the last value that is allowed gets through as it is, the next one does not.
func TestLimitsAreExact(t *testing.T) {
	d := &fakeService{
		deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil },
		stock:  func(sku service.SKU) (service.Stock, error) { return service.Stock{SKU: sku}, nil },
	}
	url := serve(t, d, func(c *handler.Config) { c.Lab = true }).URL
	sold := func(what func(service.Request) any) func() any {
		return func() any {
			if len(d.asked) == 0 {
				return nil
			}
			return what(d.asked[0])
		}
	}
	quantity := sold(func(r service.Request) any { return r.Quantity })
	wait := sold(func(r service.Request) any { return *r.Wait })
	sku := sold(func(r service.Request) any { return len(r.SKU) })
	limit, stock := func() any { return d.limit }, func() any { return d.quantity }
	for _, row := range []struct {
		method, path string
		saw          func() any
		want         any // nil: refused
	}{
		{http.MethodPost, "/deduct_stock_zk?quantity=0", quantity, nil},
		{http.MethodPost, "/deduct_stock_zk?quantity=1", quantity, int64(1)},
		{http.MethodPost, "/deduct_stock_zk?quantity=1000000", quantity, int64(1_000_000)},
		{http.MethodPost, "/deduct_stock_zk?quantity=1000001", quantity, nil},
		{http.MethodPost, "/deduct_stock_zk?wait=-1ns", wait, nil},
		{http.MethodPost, "/deduct_stock_zk?wait=0s", wait, time.Duration(0)},
		{http.MethodPost, "/deduct_stock_zk?wait=60s", wait, time.Minute},
		{http.MethodPost, "/deduct_stock_zk?wait=60.001s", wait, nil},
		{http.MethodPost, "/deduct_stock_zk?wait=1m0.000000001s", wait, nil},
		{
			http.MethodPost, "/deduct_stock_zk?hold=60s", sold(func(r service.Request) any { return r.Lab.Hold }),
			time.Minute,
		},
		{http.MethodPost, "/deduct_stock_zk?hold=60.001s", nil, nil},
		{http.MethodPost, "/deduct_stock_zk?sku=" + strings.Repeat("x", 64), sku, 64},
		{http.MethodPost, "/deduct_stock_zk?sku=" + strings.Repeat("x", 65), sku, nil},
		{http.MethodGet, "/v1/stock/a/orders?limit=0", limit, nil},
		{http.MethodGet, "/v1/stock/a/orders?limit=1", limit, 1},
		{http.MethodGet, "/v1/stock/a/orders", limit, 100},
		{http.MethodGet, "/v1/stock/a/orders?limit=1000", limit, 1000},
		{http.MethodGet, "/v1/stock/a/orders?limit=1001", limit, nil},
		{http.MethodGet, "/v1/stock/a/orders?cursor=17", func() any { return d.cursor }, "17"},
		{http.MethodPut, "/v1/stock/a?quantity=-1", stock, nil},
		{http.MethodPut, "/v1/stock/a?quantity=0", stock, int64(0)},
		{http.MethodPut, fmt.Sprintf("/v1/stock/a?quantity=%d", service.MaxStock), stock, int64(service.MaxStock)},
		{http.MethodPut, fmt.Sprintf("/v1/stock/a?quantity=%d", service.MaxStock+1), stock, nil},
		{http.MethodPut, "/v1/stock/a", stock, nil},
	} {
		d.asked, d.limit, d.quantity = nil, -1, -1
		r := ask(t, row.method, url+row.path, "", "Authorization", "Bearer "+token)
		if row.want == nil {
			wantProblem(t, r, http.StatusBadRequest, "invalid")
			if len(d.asked) > 0 || d.limit != -1 || d.quantity != -1 {
				t.Errorf("%s: the service was asked", row.path)
			}
			continue
		}
		if saw := row.saw(); r.StatusCode != http.StatusOK || saw != row.want {
			t.Errorf("%s: %d, asked for %v, want %v", row.path, r.StatusCode, saw, row.want)
		}
	}
}

// A body of 65536 bytes is read, one of 65537 is not, whether its length was declared or not.
func TestTheLimitOfTheBodyIsExact(t *testing.T) {
	url, d := everyRoute(t)
	for size, status := range map[int]int{65536: http.StatusOK, 65537: http.StatusRequestEntityTooLarge} {
		for _, declared := range []bool{true, false} {
			body := `{"quantity":3` + strings.Repeat(" ", size-len(`{"quantity":3}`)) + "}"
			var from io.Reader = strings.NewReader(body)
			if !declared {
				from = io.MultiReader(from)
			}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/deduct_stock_zk", from)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", asJSON)
			d.asked = nil
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			sold := len(d.asked) == 1 && d.asked[0].Quantity == 3
			if resp.StatusCode != status || sold != (status == http.StatusOK) {
				t.Errorf("%d bytes, declared %v: %d, asked %+v", size, declared, resp.StatusCode, d.asked)
			}
		}
	}
}

// A panic of the service is answered, and http.ErrAbortHandler, which is how a handler says "no answer", is not.
func TestPanics(t *testing.T) {
	for what, answered := range map[any]bool{"oops": true, http.ErrAbortHandler: false} {
		d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { panic(what) }}
		s := serve(t, d, nil)
		resp, err := http.Post(s.URL+"/deduct_stock_zk", "", nil)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != answered || answered && resp.StatusCode != http.StatusInternalServerError {
			t.Errorf("%v: %v, %v", what, resp, err)
		}
	}
}

// counts remembers the deductions that were counted.
type counts struct {
	handler.Meter
	seen []string
}

func (c *counts) Deduction(strategy, outcome string) { c.seen = append(c.seen, strategy+" "+outcome) }

// Each deduction is counted once, by strategy and outcome. A strategy that does not exist is not: its name comes from
// outside.
func TestDeductionsAreCounted(t *testing.T) {
	var outcome error
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return receipt(), outcome
	}}
	var c *counts
	h := build(d, func(config *handler.Config) {
		c = &counts{Meter: config.Meter}
		config.Meter = c
	})
	for _, outcome = range []error{nil, service.ErrSoldOut, service.ErrUnknownStrategy} {
		record(h, http.MethodPost, "/deduct_stock_zk", "")
	}
	want := []string{"zk-sequential accepted", "zk-sequential sold_out"}
	if !slices.Equal(c.seen, want) {
		t.Errorf("counted %q, want %q", c.seen, want)
	}
}

// The metrics count refusals by their type, and say whether the instance is ready: also while it drains, and while it
// cannot sell. Prometheus does not ask /readyz.
func TestTheMetricsSayWhatIsRefusedAndWhetherItIsReady(t *testing.T) {
	var outcome error
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return receipt(), outcome
	}}
	down, draining := backend{"redis", &lockDown{}}, false
	configure := func(sellable bool) handler.Config {
		return config(d, func(o *handler.Config) {
			o.Draining = func() bool { return draining }
			if !sellable {
				o.Strategies[0].Stores[0].Backend = down
			}
		})
	}
	c := configure(true)
	public, operators := handler.New(c), handler.NewAdmin(c)
	for _, outcome = range []error{nil, service.ErrSoldOut, service.ErrSoldOut, service.ErrOutcomeUnknown} {
		record(public, http.MethodPost, "/deduct_stock_zk", "")
	}
	page := record(operators, http.MethodGet, "/metrics", "").Body.String()
	const series = `stock_problems_total{method="POST",problem="%s",route="/deduct_stock_zk"} %d` + "\n"
	for _, line := range []string{
		fmt.Sprintf(series, "sold_out", 2), fmt.Sprintf(series, "outcome_unknown", 1), "\nstock_ready 1\n",
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no %q in\n%s", line, page)
		}
	}
	draining = true
	drained := record(operators, http.MethodGet, "/metrics", "").Body.String()
	draining = false
	unsellable := record(handler.NewAdmin(configure(false)), http.MethodGet, "/metrics", "").Body.String()
	for _, page := range []string{drained, unsellable} {
		if !strings.Contains(page, "\nstock_ready 0\n") {
			t.Errorf("it is said to be ready:\n%s", page)
		}
	}
}

// A request that came before the instance drains, and is answered while it does, is the last one on its connection:
// what comes after it would not be answered.
func TestDrainingBeginsDuringARequest(t *testing.T) {
	var draining atomic.Bool
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		draining.Store(true)
		return receipt(), nil
	}}
	s := serve(t, d, func(c *handler.Config) { c.Draining = draining.Load })
	if r := ask(t, http.MethodGet, s.URL+"/livez", ""); r.Close {
		t.Error("the connection ends although nothing is draining")
	}
	if r := ask(t, http.MethodPost, s.URL+"/deduct_stock_zk?sku=a", ""); r.StatusCode != http.StatusOK || !r.Close {
		t.Errorf("%d %s, connection closed: %v", r.StatusCode, r.body, r.Close)
	}
}
