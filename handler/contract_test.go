package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/stock/app/metrics"
	"example.com/stock/handler"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// A fakeService is a service with the answers that a test wants.
type fakeService struct {
	deduct func(context.Context, service.Request) (service.Receipt, error)
	stock  func(service.SKU) (service.Stock, error)
	settle func(store string, sku service.SKU, id string) (service.Settlement, error)
	asked  []service.Request

	condition service.Condition // of the last SetStockIf
	quantity  int64
	cursor    string // of the last Orders
	limit     int
}

func (d *fakeService) Deduct(ctx context.Context, r service.Request) (service.Receipt, error) {
	d.asked = append(d.asked, r)
	return d.deduct(ctx, r)
}

func (d *fakeService) Stock(_ context.Context, _ string, sku service.SKU) (service.Stock, error) {
	return d.stock(sku)
}

func (d *fakeService) SetStockIf(
	_ context.Context, _ string, sku service.SKU, quantity int64, c service.Condition,
) (service.Stock, error) {
	d.quantity, d.condition = quantity, c
	return d.stock(sku)
}

func (d *fakeService) Orders(
	_ context.Context, _ string, _ service.SKU, cursor string, limit int,
) (service.Page, error) {
	d.cursor, d.limit = cursor, limit
	return service.Page{Orders: []service.Order{order()}, Next: "1"}, nil
}

func (d *fakeService) Settle(_ context.Context, store string, sku service.SKU, id string) (service.Settlement, error) {
	return d.settle(store, sku, id)
}

// backend is up or down as told.
type backend struct {
	name string
	err  error
}

func (b backend) Name() string           { return b.name }
func (b backend) Err() error             { return b.err }
func (b backend) Warning() error         { return nil }
func (b backend) Latency() time.Duration { return time.Millisecond }
func (b backend) Server() string         { return "" }

func order() service.Order {
	return service.Order{
		ID: "0190b2f4-0000-7000-8000-000000000000", SKU: "stock", Quantity: 2, Read: 100, Remaining: 98,
		Version: 3, Epoch: 1, Strategy: "zk-sequential", Instance: "app-1", RequestID: "r", Fence: 9,
		CreatedAt: time.Now(),
	}
}

func receipt() service.Receipt {
	now := time.Now()
	return service.Receipt{
		Order: order(), Store: "redis", HolderFence: 9, Waited: 1500 * time.Microsecond, Held: time.Millisecond,
		AcquiredAt: now, ReadAt: now, WrittenAt: now, ReleasedAt: now.Add(time.Millisecond),
	}
}

const token = "secret"

func serve(t *testing.T, d *fakeService, change func(*handler.Config)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(build(d, change))
	t.Cleanup(s.Close)
	return s
}

// serveAdmin is serve for the admin listener.
func serveAdmin(t *testing.T, d *fakeService, change func(*handler.Config)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler.NewAdmin(config(d, change)))
	t.Cleanup(s.Close)
	return s
}

func build(d *fakeService, change func(*handler.Config)) http.Handler {
	return handler.New(config(d, change))
}

// config is that of an instance with one strategy and one store, as app makes it.
func config(d *fakeService, change func(*handler.Config)) handler.Config {
	m := metrics.New("test", "app-1")
	up := backend{name: "redis"}
	c := handler.Config{
		Service: d, DefaultSKU: "stock", Store: "redis",
		Strategies: []handler.Strategy{{
			Name: "zk-sequential", Endpoint: "/deduct_stock_zk", Summary: "a lock",
			Stores:     []handler.Store{{Name: "redis", Backend: up}},
			Promise:    driver.Promise{Exclusive: true, Scope: driver.Cluster, FreedAfterCrash: driver.Forever},
			RoundTrips: 2,
		}},
		Backends: []handler.Backend{up}, Instance: "app-1", Admins: admins(token), Meter: m, Metrics: m.Handler(),
		Log: slog.New(slog.DiscardHandler), Draining: func() bool { return false },
	}
	if change != nil {
		change(&c)
	}
	return c
}

func admins(tokens ...string) handler.Tokens { return handler.NewTokens(tokens) }

// A reply, read to its end.
type reply struct {
	*http.Response
	body    []byte
	problem struct {
		Type, Title, Detail, Field string
		Status                     int
		OrderID                    string `json:"order_id"`
		Settle                     string
	}
}

func ask(t *testing.T, method, url, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := reply{Response: resp}
	r.body, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = json.Unmarshal(r.body, &r.problem)
	if r.Header.Get("X-Request-Id") == "" || r.Header.Get("X-Instance") != "app-1" {
		t.Errorf("%s %s: X-Request-Id %q, X-Instance %q", method, url, r.Header.Get("X-Request-Id"),
			r.Header.Get("X-Instance"))
	}
	conform(t, r)
	return r
}

// wantProblem checks a problem reply in full.
func wantProblem(t *testing.T, r reply, status int, name string) {
	t.Helper()
	if r.StatusCode != status || r.problem.Status != status || r.problem.Type != "/problems/"+name {
		t.Errorf("status %d, problem %+v; want %d %s", r.StatusCode, r.problem, status, name)
	}
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type %q", ct)
	}
}

// Every error of the service has its answer, and nothing internal is in it.
func TestEveryErrorHasItsProblem(t *testing.T) {
	secret := errors.New("dial tcp 10.0.0.7:3306: password=hunter2")
	held := &lock.HeldError{Key: "stock", Holder: "app-2/r", Remaining: time.Second}
	for _, row := range []struct {
		err    error
		status int
		name   string
		retry  bool
	}{
		{service.ErrUnknownSKU, 404, "unknown_sku", false},
		{fmt.Errorf("%w %q", service.ErrUnknownStrategy, "x"), 404, "unknown_strategy", false},
		{service.Invalid("store", "one-of", "list", "[redis]"), 400, "invalid", false},
		{&service.SoldOutError{Remaining: 1}, 409, "sold_out", false},
		{&service.GuardError{Guard: "none"}, 409, "strategy_mismatch", false},
		{service.ErrStockReset, 409, "stock_reset", false},
		{service.ErrPrecondition, 412, "precondition_failed", false},
		{&service.DataLostError{Store: "redis"}, 503, "data_lost", false},
		{errors.Join(service.ErrOutcomeUnknown, secret), 503, "outcome_unknown", false},
		{errors.Join(service.ErrOutcomeUnknown, lock.ErrLost), 503, "outcome_unknown", false},
		{fmt.Errorf("%w: %w", service.ErrSettled, secret), 409, "order_settled", false},
		{fmt.Errorf("%w: %w", service.ErrUndecided, secret), 503, "undecided", true},
		{service.ErrTooOld, 410, "order_too_old", false},
		{service.ErrStaleFence, 503, "stale_fence", true},
		{service.ErrOvertaken, 503, "overtaken", true},
		{errors.Join(context.Canceled, lock.ErrLost, lock.ErrExpired), 503, "lock_lost", true},
		{driver.Down("acquire", secret), 503, "backend_down", true},
		{
			errors.Join(held, &driver.DownError{Server: "mysql", Reason: "disk-full", Full: true}), 503,
			"store_full", true,
		},
		{
			errors.Join(held, driver.NewDown("redis", "no-answer", "limit", "800ms")), 503, "backend_down",
			true,
		},
		{held, 503, "lock_busy", true},
		{fmt.Errorf("deduct: %w", lock.ErrOverloaded), 503, "overloaded", true},
		{errors.Join(held, context.DeadlineExceeded), 503, "lock_timeout", true},
		{errors.Join(held, context.Canceled), 499, "client_gone", false},
		{fmt.Errorf("acquire lock: %w", lock.ErrNoCapacity), 503, "no_capacity", true},
		{fmt.Errorf("wait for a turn: %w", service.ErrStopping), 503, "stopping", true},
		{errors.Join(held, service.ErrStopping), 503, "lock_busy", true},
		{errors.Join(lock.ErrNoCapacity, context.DeadlineExceeded), 503, "no_capacity", true},
		{secret, 500, "internal", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
				return service.Receipt{}, &service.OrderError{
					OrderID: "the-order", Err: row.err, SKU: "a:b", Store: "mysql",
				}
			}}
			r := ask(t, http.MethodPost, serve(t, d, nil).URL+"/deduct_stock_zk", "")
			wantProblem(t, r, row.status, row.name)
			if bytes.Contains(r.body, []byte("hunter2")) || bytes.Contains(r.body, []byte("10.0.0.7")) {
				t.Errorf("internals leak: %s", r.body)
			}
			if got := r.Header.Get("Retry-After") != ""; got != row.retry {
				t.Errorf("Retry-After %q, want one: %v", r.Header.Get("Retry-After"), row.retry)
			}
			if row.name == "outcome_unknown" && r.problem.OrderID != "the-order" {
				t.Errorf("order id %q: nobody can look it up", r.problem.OrderID)
			}
			const call = "/v1/stock/a:b/orders/the-order/settle?store=mysql"
			named := r.problem.Settle == call && strings.Contains(r.problem.Detail, "POST "+call)
			if row.name == "outcome_unknown" && !named {
				t.Errorf("settle %q, detail %q: want %s in both", r.problem.Settle, r.problem.Detail, call)
			}
		})
	}
}

// A person reads why in the language that the request asks for; a program reads the same in both.
func TestProblemsSpeakTheReadersLanguage(t *testing.T) {
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return service.Receipt{}, &service.SoldOutError{Remaining: 3}
	}}
	s := serve(t, d, nil)
	english := ask(t, http.MethodPost, s.URL+"/deduct_stock_zk", "")
	for _, row := range []struct{ path, accept, language, title, detail, field string }{
		{"/deduct_stock_zk", "zh-CN,zh;q=0.9,en;q=0.8", "zh", "售罄", "售罄：剩余 3 件", ""},
		{"/deduct_stock_zk", "fr, en;q=0.5", "en", "Sold out", "sold out: 3 left", ""},
		{"/deduct_stock_zk", "", "en", "Sold out", "sold out: 3 left", ""},
		{"/deduct_stock_zk?quantity=0", "zh", "zh", "请求无效", "quantity 须为 1 到 1000000 之间的整数", "quantity"},
		{"/nothing", "zh", "zh", "没有这个资源", "这里什么也没有。GET /openapi.json 列出全部接口。", ""},
	} {
		r := ask(t, http.MethodPost, s.URL+row.path, "", "Accept-Language", row.accept)
		if r.problem.Title != row.title || r.problem.Detail != row.detail || r.problem.Field != row.field {
			t.Errorf("%s, %q: %+v", row.path, row.accept, r.problem)
		}
		if r.Header.Get("Content-Language") != row.language || r.Header.Get("Vary") != "Accept-Language" {
			t.Errorf("%s, %q: Content-Language %q, Vary %q", row.path, row.accept, r.Header.Get("Content-Language"),
				r.Header.Get("Vary"))
		}
		if row.title == "售罄" && (r.problem.Type != english.problem.Type || r.StatusCode != english.StatusCode) {
			t.Errorf("%s is another problem in Chinese: %s", english.problem.Type, r.problem.Type)
		}
	}
	r := ask(t, http.MethodGet, s.URL+"/problems/lock_lost", "", "Accept-Language", "zh")
	wantFields(t, r.body, map[string]string{"type": `"/problems/lock_lost"`, "title": `"锁已丢失"`})
}

// The replies of a sale, of the catalogue and of a settlement. That they have the form of the document, ask checks.
func TestWhatRepliesSay(t *testing.T) {
	url, d := everyRoute(t)
	for path, says := range map[string]string{
		"/v1/stock/stock": `"quantity":5`, "/v1/stock/stock/orders": `"next":"1"`, "/v1/strategies": `"round_trips":2`,
	} {
		if r := ask(t, http.MethodGet, url+path, ""); r.StatusCode != 200 || !strings.Contains(string(r.body), says) {
			t.Errorf("%s: %d %s, want %s", path, r.StatusCode, r.body, says)
		}
	}
	d.settle = func(store string, sku service.SKU, id string) (service.Settlement, error) {
		return service.Settlement{Written: store == "mysql", Order: order()}, nil
	}
	for store, state := range map[string]string{"mysql": "written", "redis": "absent"} {
		r := ask(t, http.MethodPost, url+"/v1/stock/stock/orders/"+order().ID+"/settle?store="+store, "")
		body, written := string(r.body), state == "written"
		if !strings.Contains(body, `"state":"`+state+`"`) || strings.Contains(body, `"order":`) != written {
			t.Errorf("%s: %s", store, body)
		}
	}
}

// What only some strategies have to say is left out of the replies of the others.
func TestWhatSomeStrategiesSay(t *testing.T) {
	const batch = "01900000-0000-7000-8000-000000000001"
	for _, row := range []struct {
		segment, tries, wakeups int
		batch                   *service.InBatch
		want                    string
	}{
		{0, 0, 0, nil, "<nil> <nil> <nil> <nil>"},
		{0, 1, 1, nil, "<nil> <nil> 1 <nil>"},
		{7, 2, 99, nil, "7 2 99 <nil>"},
		{
			0, 1, 0, &service.InBatch{ID: batch, Place: 3, Size: 30},
			"<nil> <nil> <nil> map[id:" + batch + " place:3 size:30]",
		},
	} {
		sold := receipt()
		sold.Segment, sold.Tries, sold.Wakeups, sold.Batch = row.segment, row.tries, row.wakeups, row.batch
		d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return sold, nil }}
		var got map[string]any
		sale := ask(t, http.MethodPost, serve(t, d, nil).URL+"/deduct_stock_zk", "")
		if err := json.Unmarshal(sale.body, &got); err != nil {
			t.Fatal(err)
		}
		said := fmt.Sprint(got["segment"], " ", got["tries"], " ", got["wakeups"], " ", got["batch"])
		if said != row.want {
			t.Errorf("the reply says %s, want %s", said, row.want)
		}
	}
}

// wantFields compares members of a JSON object, as they are written.
func wantFields(t *testing.T, body []byte, want map[string]string) {
	t.Helper()
	var got map[string]json.RawMessage
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for name, value := range want {
		if string(got[name]) != value {
			t.Errorf("%s is %s, want %s", name, got[name], value)
		}
	}
}
