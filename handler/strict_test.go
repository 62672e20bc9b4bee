package handler_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// gates are all routes that answer GET, with whatever they need.
func gates() []string {
	return []string{
		"/v1/strategies", "/v1/stock/stock", "/v1/stock/stock/orders",
		"/v1/locks/redis-watchdog/stock",
		"/v1/lab/pauses",
		"/livez", "/readyz", "/version", "/metrics", "/openapi.json", "/problems/sold_out",
	}
}

// everyRoute is a handler on which all routes answer.
func everyRoute(t *testing.T) (url string, d *fakeService) {
	t.Helper()
	d = &fakeService{
		deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil },
		stock:  func(sku service.SKU) (service.Stock, error) { return service.Stock{SKU: sku, Quantity: 5}, nil },
	}
	lab := func(c *handler.Config) { c.Lab, c.Pauses = true, &pausedSale{} }
	public, admin := build(d, lab), handler.NewAdmin(config(d, lab))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if forOperators(r.URL.Path) {
			admin.ServeHTTP(w, r)
		} else {
			public.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, d
}

// forOperators are the paths that are on the admin listener alone.
func forOperators(path string) bool {
	return strings.HasPrefix(path, "/v1/locks") || strings.HasPrefix(path, "/v1/lab") || path == "/metrics"
}

// What is for operators is not found on the public listener, and nothing is sold or set on that of the operators,
// whoever asks.
func TestTheListenersAreApart(t *testing.T) {
	d := &fakeService{}
	lab := func(c *handler.Config) { c.Lab, c.Pauses = true, &pausedSale{} }
	public, admin := serve(t, d, lab).URL, serveAdmin(t, d, lab).URL
	for _, row := range []struct{ url, method, path string }{
		{public, http.MethodGet, "/metrics"},
		{public, http.MethodGet, "/v1/locks/redis-watchdog/stock"},
		{public, http.MethodDelete, "/v1/locks/redis-watchdog/stock"},
		{public, http.MethodGet, "/v1/lab/pauses"},
		{public, http.MethodDelete, "/v1/lab/pauses/r:1"},
		{admin, http.MethodPost, "/deduct_stock_zk"},
		{admin, http.MethodPost, "/v1/stock/a/deduct"},
		{admin, http.MethodGet, "/v1/stock/a"},
		{admin, http.MethodPut, "/v1/stock/a?quantity=1"},
	} {
		wantProblem(t, ask(t, row.method, row.url+row.path, "", "Authorization", "Bearer "+token), http.StatusNotFound,
			"not_found")
	}
	for _, path := range []string{"/livez", "/readyz", "/version", "/openapi.json", "/problems/sold_out"} {
		for _, url := range []string{public, admin} {
			if r := ask(t, http.MethodGet, url+path, ""); r.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
			}
		}
	}
}

func TestHeadIsGetWithoutABody(t *testing.T) {
	url, _ := everyRoute(t)
	admin := []string{"Authorization", "Bearer " + token}
	for _, path := range gates() {
		got, head := ask(t, http.MethodGet, url+path, "", admin...), ask(t, http.MethodHead, url+path, "", admin...)
		if got.StatusCode != http.StatusOK || head.StatusCode != http.StatusOK || len(head.body) > 0 ||
			head.Header.Get("Content-Type") != got.Header.Get("Content-Type") {
			t.Errorf("%s: GET %d %s, HEAD %d %s %s", path, got.StatusCode, got.Header, head.StatusCode, head.Header,
				head.body)
		}
	}
	r := ask(t, http.MethodHead, url+"/deduct_stock_zk", "")
	if r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != http.MethodPost {
		t.Errorf("HEAD of an endpoint that sells: %d, Allow %q", r.StatusCode, r.Header.Get("Allow"))
	}
}

// A path with a slash too many is another path. A redirect would turn a POST into a GET in many a client.
func TestNoRedirects(t *testing.T) {
	url, d := everyRoute(t)
	for _, path := range append(gates(), "/deduct_stock_zk", "/v1/stock/a/deduct") {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
			wantProblem(t, ask(t, method, url+path+"/", ""), http.StatusNotFound, "not_found")
		}
	}
	if len(d.asked) > 0 {
		t.Errorf("sold: %+v", d.asked)
	}
}

// Parameters that a route does not know are refused, with any method. The probes and the metrics let them pass: whoever
// asks those adds some.
func TestUnknownParameters(t *testing.T) {
	url, _ := everyRoute(t)
	admin := []string{"Authorization", "Bearer " + token}
	for _, path := range gates() {
		r := ask(t, http.MethodGet, url+path+"?verbose=1", "", admin...)
		if path == "/livez" || path == "/readyz" || path == "/metrics" {
			if r.StatusCode != http.StatusOK {
				t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
			}
			continue
		}
		wantProblem(t, r, http.StatusBadRequest, "invalid")
		if r.problem.Field != "verbose" {
			t.Errorf("%s: field %q", path, r.problem.Field)
		}
	}
	for method, path := range map[string]string{
		http.MethodPost: "/deduct_stock_zk", http.MethodPut: "/v1/stock/a",
		http.MethodDelete: "/v1/locks/redis-watchdog/stock",
	} {
		wantProblem(t, ask(t, method, url+path+"?verbose=1", "", admin...), http.StatusBadRequest, "invalid")
	}
}

func TestContentEncoding(t *testing.T) {
	url, d := everyRoute(t)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte(`{"quantity":1}`))
	_ = w.Close()
	for _, encoding := range []string{"gzip", "GZIP", "deflate", "br", "identity, gzip", "x"} {
		r := ask(t, http.MethodPost, url+"/deduct_stock_zk", packed.String(), "Content-Type", asJSON,
			"Content-Encoding", encoding)
		wantProblem(t, r, http.StatusUnsupportedMediaType, "unsupported_media_type")
		if !strings.Contains(r.problem.Detail, "Content-Encoding") || r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: %s, Accept-Encoding %q", encoding, r.problem.Detail, r.Header.Get("Accept-Encoding"))
		}
	}
	r := ask(t, http.MethodPost, url+"/deduct_stock_zk", packed.String(), "Content-Type", "application/gzip")
	wantProblem(t, r, http.StatusUnsupportedMediaType, "unsupported_media_type")
	if len(d.asked) > 0 {
		t.Errorf("sold: %+v", d.asked)
	}
	for _, encoding := range []string{"identity", "Identity"} {
		r := ask(t, http.MethodPost, url+"/deduct_stock_zk", `{"quantity":1}`, "Content-Type", asJSON,
			"Content-Encoding", encoding)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", encoding, r.StatusCode, r.body)
		}
	}
	r = ask(t, http.MethodPost, url+"/deduct_stock_zk", "", "Content-Encoding", "gzip")
	if r.StatusCode != http.StatusOK {
		t.Errorf("no body at all: %d %s", r.StatusCode, r.body)
	}
}

// What a client sends fills neither the log nor the reply.
func TestLongInputIsCut(t *testing.T) {
	long := strings.Repeat("x", 60<<10)
	var log bytes.Buffer
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return service.Receipt{}, service.ErrUnknownStrategy
	}}
	h := build(d, func(c *handler.Config) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	for name, r := range map[string]struct{ method, path, body string }{
		"strategy":        {http.MethodPost, "/v1/stock/a/deduct", `{"strategy":"` + long + `"}`},
		"field":           {http.MethodPost, "/deduct_stock_zk?" + long + "=1", ""},
		"field twice":     {http.MethodPost, "/deduct_stock_zk?" + long + "=1&" + long + "=2", ""},
		"member":          {http.MethodPost, "/deduct_stock_zk", `{"` + long + `":1}`},
		"number":          {http.MethodPost, "/deduct_stock_zk", `{"quantity":1` + strings.Repeat("0", 60<<10) + `}`},
		"path":            {http.MethodGet, "/" + long, ""},
		"SKU":             {http.MethodGet, "/v1/stock/" + long, ""},
		"problem":         {http.MethodGet, "/problems/" + long, ""},
		"method":          {long, "/livez", ""},
		"store":           {http.MethodGet, "/v1/stock/a?store=" + long, ""},
		"cursor":          {http.MethodGet, "/v1/stock/a/orders?cursor=" + long, ""},
		"cut within rune": {http.MethodPost, "/v1/stock/a/deduct", `{"strategy":"` + strings.Repeat("库", 5000) + `"}`},
	} {
		log.Reset()
		d.stock = func(service.SKU) (service.Stock, error) { return service.Stock{}, service.ErrUnknownSKU }
		reply := record(h, r.method, r.path, r.body)
		if reply.Code < 400 && name != "cursor" || reply.Body.Len() > 1500 || log.Len() > 1000 {
			t.Errorf("%s: %d, a reply of %d bytes, a log of %d", name, reply.Code, reply.Body.Len(), log.Len())
		}
		if !json.Valid(reply.Body.Bytes()) || !json.Valid(log.Bytes()) ||
			strings.Contains(log.String()+reply.Body.String(), `\ufffd`) {
			t.Errorf("%s: %s\n%s", name, &log, reply.Body)
		}
	}
}

// record asks a handler without a connection: no server in between has limits of its own.
func record(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, strings.NewReader(body))
	req.Method = method
	req.Header.Set("Content-Type", asJSON)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// newHeldBody is a body of which nothing comes until end.
func newHeldBody() (body io.Reader, end func()) {
	r, w := io.Pipe()
	return r, func() { _ = w.Close() }
}

// deadlines is a reply that notes until when its connection is read.
type deadlines struct {
	*httptest.ResponseRecorder
	read []time.Time
}

func (d *deadlines) SetReadDeadline(until time.Time) error {
	d.read = append(d.read, until)
	return nil
}

// The limit of the body ends with the body: it does not end the request that waits for longer, which would look like a
// client that went away.
func TestTheLimitOfTheBodyDoesNotEndTheWait(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		if len(w.read) != 2 || w.read[0].IsZero() || !w.read[1].IsZero() {
			t.Errorf("the wait begins with the deadlines %v, want one that was taken back", w.read)
		}
		return receipt(), nil
	}}
	req := httptest.NewRequest(http.MethodPost, "/deduct_stock_zk", strings.NewReader(`{"quantity":1}`))
	req.Header.Set("Content-Type", asJSON)
	build(d, nil).ServeHTTP(w, req)
	if w.Code != http.StatusOK || w.Header().Get("Connection") != "" {
		t.Errorf("%d %s, connection: %s", w.Code, w.Body, w.Header().Get("Connection"))
	}
}

// A body that is too large as declared is refused before a byte of it has come.
func TestADeclaredBodyIsRefusedAtOnce(t *testing.T) {
	url, d := everyRoute(t)
	body, end := newHeldBody()
	defer end()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/deduct_stock_zk", body)
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = 10 << 30
	req.Header.Set("Content-Type", asJSON)
	client := http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close || len(d.asked) > 0 {
		t.Errorf("%d, closed: %v", resp.StatusCode, resp.Close)
	}
}
