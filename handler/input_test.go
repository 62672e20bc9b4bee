package handler_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/handler"
	"example.com/stock/service"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(int) { http.DefaultClient.CloseIdleConnections() }))
}

const asJSON = "application/json"

// Bad input is answered with the field and its limit, and the service is not asked.
func TestBadInput(t *testing.T) {
	d := &fakeService{}
	s := serve(t, d, nil)
	long := strings.Repeat("x", 65)
	for _, row := range []struct {
		path, body, media string
		status            int
		name, field       string
		limit             string // what the detail must say
	}{
		{"/deduct_stock_zk?quantity=1.5", "", "", 400, "invalid", "quantity", "whole number"},
		{"/deduct_stock_zk?quantity=99999999999999999999", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=+1", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=%2B1", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=01", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=-0", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=1_0", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?quantity=%201", "", "", 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk?sku=.", "", "", 400, "invalid", "sku", "path"},
		{"/deduct_stock_zk?sku=..", "", "", 400, "invalid", "sku", "path"},
		{"/deduct_stock_zk", `{"sku":"."}`, asJSON, 400, "invalid", "sku", "path"},
		{"/v1/stock/%2E%2E/deduct", `{"strategy":"none"}`, asJSON, 400, "invalid", "sku", "path"},
		{"/deduct_stock_zk", `{"sku":123}`, asJSON, 400, "invalid", "sku", "a string, not a number"},
		{"/deduct_stock_zk", `{"wait":5}`, asJSON, 400, "invalid", "wait", "a string, not a number"},
		{"/deduct_stock_zk", `{"store":1}`, asJSON, 400, "invalid", "store", "a string, not a number"},
		{"/v1/stock/a/deduct", `{"strategy":1}`, asJSON, 400, "invalid", "strategy", "a string, not a number"},
		{"/deduct_stock_zk?sku=", "", "", 400, "invalid", "sku", "empty"},
		{"/deduct_stock_zk?sku=" + long, "", "", 400, "invalid", "sku", "64"},
		{"/deduct_stock_zk?sku=a%20b", "", "", 400, "invalid", "sku", "character 2"},
		{"/deduct_stock_zk?sku=%7Ba%7D", "", "", 400, "invalid", "sku", "character 1"},
		{"/deduct_stock_zk?sku=%E5%BA%93%E5%AD%98", "", "", 400, "invalid", "sku", "character 1"},
		{"/deduct_stock_zk?wait=soon", "", "", 400, "invalid", "wait", "0s to 60s"},
		{"/deduct_stock_zk?wait=5", "", "", 400, "invalid", "wait", "500ms or 2s"},
		{"/deduct_stock_zk?sku=a&sku=b", "", "", 400, "invalid", "sku", "twice"},
		{"/deduct_stock_zk?qty=1", "", "", 400, "invalid", "qty", "known are sku, quantity"},
		{"/deduct_stock_zk?sku=%zz", "", "", 400, "invalid", "query", "name=value"},
		{"/deduct_stock_zk", `{"quantity":0}`, asJSON, 400, "invalid", "quantity", "1 to 1000000"},
		{"/deduct_stock_zk", `{"quantity":1.0}`, asJSON, 400, "invalid", "quantity", "whole number"},
		{"/deduct_stock_zk", `{"quantity":1e3}`, asJSON, 400, "invalid", "quantity", "whole number"},
		{"/deduct_stock_zk", `{"quantity":"1"}`, asJSON, 400, "invalid", "quantity", "not a string"},
		{"/deduct_stock_zk", `{"quantity":null}`, asJSON, 400, "invalid", "quantity", "string or a number"},
		{"/deduct_stock_zk", `{"sku":["a"]}`, asJSON, 400, "invalid", "sku", "string or a number"},
		{"/deduct_stock_zk", `{"qty":1}`, asJSON, 400, "invalid", "qty", "unknown"},
		{"/deduct_stock_zk", `{"sku":"a","sku":"b"}`, asJSON, 400, "invalid", "sku", "twice"},
		{"/deduct_stock_zk?sku=a", `{"sku":"b"}`, asJSON, 400, "invalid", "sku", "twice"},
		{"/deduct_stock_zk", `[1]`, asJSON, 400, "invalid", "body", "object"},
		{"/deduct_stock_zk", `{"quantity":1`, asJSON, 400, "invalid", "body", "not JSON"},
		{"/deduct_stock_zk", `{"quantity":1,x`, asJSON, 400, "invalid", "body", "not JSON"},
		{"/deduct_stock_zk", `{"quantity":1} x`, asJSON, 400, "invalid", "body", "end after"},
		{"/deduct_stock_zk", `quantity=1`, asJSON, 400, "invalid", "body", "object"},
		{
			"/deduct_stock_zk", `quantity=1`, "application/x-www-form-urlencoded", 415, "unsupported_media_type", "",
			"application/json",
		},
		{"/deduct_stock_zk", `{"quantity":1}`, "", 415, "unsupported_media_type", "", "application/json"},
		{
			"/deduct_stock_zk", `{"sku":"` + strings.Repeat("x", handler.MaxBody) + `"}`, asJSON, 413, "too_large", "",
			"65536",
		},
		{
			"/deduct_stock_zk", `{"quantity":1}`, asJSON + "; charset=iso-8859-1", 415, "unsupported_media_type", "",
			"UTF-8",
		},
		{
			"/deduct_stock_zk", `{"quantity":1}`, asJSON + "; charset", 415, "unsupported_media_type", "",
			"application/json",
		},
		{"/deduct_stock_zk", "{\"sku\":\"a\xff\"}", asJSON, 400, "invalid", "body", "byte 10 is not UTF-8"},
		{"/deduct_stock_zk", "{\"sku\":\"\xe4 \"}", asJSON, 400, "invalid", "body", "byte 9 is not UTF-8"},
		{"/deduct_stock_zk", "{\"s\xc0\x80\":1}", asJSON, 400, "invalid", "body", "byte 4 is not UTF-8"},
		{"/deduct_stock_zk", "{\"sku\":\"\xed\xa0\x80\"}", asJSON, 400, "invalid", "body", "byte 9 is not UTF-8"},
		{"/deduct_stock_zk", `{"sku":"\ud800"}`, asJSON, 400, "invalid", "body", "byte 9 is half"},
		{"/deduct_stock_zk", `{"sku":"\\\uDE00"}`, asJSON, 400, "invalid", "body", "byte 11 is half"},
		{"/deduct_stock_zk", `{"sku":"\ud83d\ud83d\ude00"}`, asJSON, 400, "invalid", "body", "byte 9 is half"},
		{"/deduct_stock_zk", `{"sku":"\ud83dxude00"}`, asJSON, 400, "invalid", "body", "byte 9 is half"},
		{"/deduct_stock_zk", `{"sku":"a\ud83d\uDE00"}`, asJSON, 400, "invalid", "sku", "character 2"},
		{"/deduct_stock_zk", `{"sku":"\\ud800"}`, asJSON, 400, "invalid", "sku", "character 1"},
		{"/deduct_stock_zk", "{\"sku\":\"a\ufffd\"}", asJSON, 400, "invalid", "sku", "character 2"},
		{"/deduct_stock_zk?sku=a%FF", "", "", 400, "invalid", "sku", "byte 2 is not UTF-8"},
		{"/deduct_stock_zk?a%FFb=1", "", "", 400, "invalid", "query", "byte 2 is not UTF-8"},
		{"/deduct_stock_zk?hold=1s", "", "", 400, "invalid", "hold, fencing, heed_loss, pause, nested", "lab"},
		{"/deduct_stock_zk?fencing=maybe", "", "", 400, "invalid", "fencing", "on or off"},
		{"/v1/stock/stock/deduct", "", "", 400, "invalid", "strategy", "/v1/strategies"},
		{"/v1/stock/a%2Fb/deduct", `{"strategy":"none"}`, asJSON, 400, "invalid", "sku", "character 2"},
		{"/nowhere", "", "", 404, "not_found", "", "openapi"},
		{"/v1/strategies", "", "", 405, "method_not_allowed", "", "GET"},
	} {
		t.Run(row.path[:min(len(row.path), 60)]+" "+row.body[:min(len(row.body), 30)], func(t *testing.T) {
			r := ask(t, http.MethodPost, s.URL+row.path, row.body, "Content-Type", row.media)
			wantProblem(t, r, row.status, row.name)
			if r.problem.Field != row.field || !strings.Contains(r.problem.Detail, row.limit) {
				t.Errorf("field %q, detail %q; want %q and %q", r.problem.Field, r.problem.Detail, row.field, row.limit)
			}
		})
	}
	if len(d.asked) > 0 {
		t.Errorf("the service was asked: %+v", d.asked)
	}
}

func TestGoodInput(t *testing.T) {
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil }}
	s := serve(t, d, nil)
	zero, two := time.Duration(0), 2*time.Second
	for _, row := range []struct {
		path, body, media string
		want              service.Request
	}{
		{"/deduct_stock_zk", "", "", service.Request{SKU: "stock", Quantity: 1}},
		{"/deduct_stock_zk", "", "application/x-www-form-urlencoded", service.Request{SKU: "stock", Quantity: 1}},
		{"/deduct_stock_zk", "  \n", "text/plain", service.Request{SKU: "stock", Quantity: 1}},
		{"/deduct_stock_zk", "{}", asJSON, service.Request{SKU: "stock", Quantity: 1}},
		{
			"/deduct_stock_zk?sku=A.b_c:d-9&quantity=1000000&wait=0s", "", "",
			service.Request{SKU: "A.b_c:d-9", Quantity: 1000000, Wait: &zero},
		},
		{
			"/deduct_stock_zk?store=mysql", `{"\u0073ku":"a","wait":"2s"}`, `application/json; charset="UTF-8"`,
			service.Request{SKU: "a", Quantity: 1, Wait: &two, Store: "mysql"},
		},
		{
			"/v1/stock/b/deduct", `{"strategy":"zk-sequential","quantity":3}`, asJSON,
			service.Request{SKU: "b", Quantity: 3},
		},
	} {
		d.asked = nil
		r := ask(t, http.MethodPost, s.URL+row.path, row.body, "Content-Type", row.media, "X-Request-Id", "mine")
		if r.StatusCode != http.StatusOK || len(d.asked) != 1 {
			t.Errorf("%s %s: %d %s", row.path, row.body, r.StatusCode, r.body)
			continue
		}
		got, want := d.asked[0], row.want
		want.Strategy, want.RequestID = "zk-sequential", "mine"
		if (got.Wait == nil) != (want.Wait == nil) || got.Wait != nil && *got.Wait != *want.Wait {
			t.Errorf("%s: wait %v, want %v", row.path, got.Wait, want.Wait)
		}
		got.Wait, want.Wait = nil, nil
		if got != want {
			t.Errorf("%s %s: asked %+v, want %+v", row.path, row.body, got, want)
		}
	}
}

// A client that goes away ends the context of its request, body or not, however long ago the body was read.
func TestClientGone(t *testing.T) {
	for _, body := range []string{"", `{"quantity":1}`} {
		gone := make(chan struct{})
		entered := make(chan struct{})
		d := &fakeService{deduct: func(ctx context.Context, _ service.Request) (service.Receipt, error) {
			close(entered)
			<-ctx.Done()
			close(gone)
			return service.Receipt{}, context.Cause(ctx)
		}}
		s := serve(t, d, nil)
		ctx, cancel := context.WithCancel(t.Context())
		req, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/deduct_stock_zk", strings.NewReader(body))
		req.Header.Set("Content-Type", asJSON)
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		<-entered
		cancel()
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Errorf("body %q: the handler was not told that the client has gone", body)
		}
	}
}

func TestReadiness(t *testing.T) {
	down := backend{"redis", &lockDown{}}
	s := serve(t, &fakeService{}, func(c *handler.Config) {
		c.Backends = []handler.Backend{down}
		c.Strategies[0].Stores[0].Backend = down
	})
	r := ask(t, http.MethodGet, s.URL+"/readyz", "")
	if r.StatusCode != 503 || !strings.Contains(string(r.body), "not configured") {
		t.Errorf("nothing can be sold: %d %s", r.StatusCode, r.body)
	}
	if r := ask(t, http.MethodGet, s.URL+"/livez", ""); r.StatusCode != 200 {
		t.Errorf("livez: %d", r.StatusCode)
	}
	list := ask(t, http.MethodGet, s.URL+"/v1/strategies", "")
	if !strings.Contains(string(list.body), `"available":false`) ||
		!strings.Contains(string(list.body), "not configured") {
		t.Errorf("strategies: %s", list.body)
	}
	for _, row := range []struct {
		ready, says  string
		redis, mysql error
		status       int
	}{
		{"redis", "ready", nil, &lockDown{}, 200},
		{"redis", "nothing can be sold from redis, the default store", &lockDown{}, nil, 503},
		{"", "ready", &lockDown{}, nil, 200}, // redis is not configured
		{"nowhere", "ready", &lockDown{}, nil, 200},
		{"", "no strategy is available", &lockDown{}, &lockDown{}, 503},
	} {
		s := serve(t, &fakeService{}, func(c *handler.Config) {
			c.ReadyStore = row.ready
			c.Strategies[0].Stores = []handler.Store{
				{Name: "redis", Backend: backend{"redis", row.redis}},
				{Name: "mysql", Backend: backend{"mysql", row.mysql}},
			}
		})
		r := ask(t, http.MethodGet, s.URL+"/readyz", "")
		wantFields(t, r.body, map[string]string{"status": strconv.Quote(row.says)})
		sells := `"redis":{"sells":true,"strategies":1,"of":1}`
		if row.redis != nil {
			sells = `"redis":{"sells":false,"strategies":0,"of":1,"reason":"redis is down: not configured"}`
		}
		if r.StatusCode != row.status || !strings.Contains(string(r.body), sells) {
			t.Errorf("%+v: %d %s", row, r.StatusCode, r.body)
		}
	}
	draining := serve(t, &fakeService{}, func(c *handler.Config) { c.Draining = func() bool { return true } })
	r = ask(t, http.MethodGet, draining.URL+"/readyz", "")
	if r.StatusCode != 503 || !strings.Contains(string(r.body), "draining") || !r.Close {
		t.Errorf("draining: %d %s, connection closed: %v", r.StatusCode, r.body, r.Close)
	}
}

type lockDown struct{}

func (*lockDown) Error() string { return "redis is down: not configured" }

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"quantity":1}`, `{"sku":"a","wait":"2s"}`, `{"quantity":1e9}`,
		`{"a":{"b":[1]}}`, `[`, `{"sku":"\u0000"}`, ``,
	} {
		f.Add("sku=a", seed)
	}
	d := &fakeService{deduct: func(_ context.Context, r service.Request) (service.Receipt, error) {
		if _, err := service.ParseSKU(string(r.SKU)); err != nil || r.Quantity < 1 || r.Quantity > service.MaxQuantity {
			panic("bad input got through")
		}
		return receipt(), nil
	}}
	h := build(d, nil)
	f.Fuzz(func(t *testing.T, query, body string) {
		req := httptest.NewRequest(http.MethodPost, "/deduct_stock_zk", strings.NewReader(body))
		req.URL.RawQuery = query
		req.Header.Set("Content-Type", asJSON)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, req)
		if w.Code != 200 && w.Code != 400 && w.Code != 413 {
			t.Errorf("?%s %q: status %d %s", query, body, w.Code, w.Body)
		}
	})
}
