package loadtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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

func client(t *testing.T, url, token string, concurrency int) *loadtest.Client {
	t.Helper()
	c, err := loadtest.NewClient(url, token, concurrency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestClientSaysWhatIsWrongWithTheTarget(t *testing.T) {
	for _, row := range []struct {
		name  string
		serve http.HandlerFunc
		want  string
	}{
		{
			"HTML", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html><body>It works!") },
			"answers but is not a stock service: GET /v1/strategies returned text/html with status 200",
		},
		{"not found", http.NotFound, "returned text/plain with status 404"},
		{
			"other JSON", func(w http.ResponseWriter, _ *http.Request) { reply(w, []int{1}) },
			"returned JSON of another form",
		},
		{
			"JSON without strategies", func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]int{}) },
			"returned no strategies",
		},
		{"truncated", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, `{"strategies":[`)
		}, "broke off its reply to GET /v1/strategies after 15 bytes"},
		{
			"aborted", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"cannot be reached: GET /v1/strategies: EOF",
		},
		{
			"redirect", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "https://shop.example/", http.StatusFound)
			},
			"redirects GET /v1/strategies to https://shop.example/, which is not followed",
		},
		{
			"problem", func(w http.ResponseWriter, _ *http.Request) { refuse(w, 500, "internal", "sorry") },
			"refuses GET /v1/strategies: 500 internal: sorry",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := httptest.NewServer(row.serve)
			defer server.Close()
			_, err := client(t, server.URL, "", 1).Strategies(t.Context())
			var target *loadtest.TargetError
			if !errors.As(err, &target) || target.URL != server.URL || !strings.Contains(err.Error(), row.want) {
				t.Errorf("got %v, want a TargetError with %q", err, row.want)
			}
		})
	}
}

func TestClientOfATargetThatIsDown(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c := client(t, address, "", 1)
	_, err = c.Strategies(t.Context())
	if want := "http://" + address + " cannot be reached: GET /v1/strategies:"; err == nil ||
		!strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	got := c.Deduct(t.Context(), loadtest.Request{Endpoint: "/deduct_right", SKU: "x", Quantity: 1})
	if got.Outcome != loadtest.Failed {
		t.Errorf("a request that could not be sent is %s, want failed: it cannot have sold", got.Outcome)
	}
}

func TestNewClientRefusesWhatIsNoAddress(t *testing.T) {
	for _, address := range []string{
		"", "ftp://host", "http://", "http://host/?a=b", "http://me:pw@host",
		"http://ho st", "http://host/#x",
	} {
		var plan *loadtest.PlanError
		if _, err := loadtest.NewClient(address, "", 1); !errors.As(err, &plan) {
			t.Errorf("NewClient(%q): got %v, want a PlanError", address, err)
		}
	}
}

// Of a request without a whole reply it is not known whether it sold.
func TestDeductWithoutAWholeReply(t *testing.T) {
	asJSON := func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") }
	for name, spoil := range map[string]http.HandlerFunc{
		"closed": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			asJSON(w)
			w.Header().Set("Content-Length", "500")
			fmt.Fprint(w, `{"order_id":"order-1","sku"`)
		},
		"HTML": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>welcome</html>`) },
		"half a receipt": func(w http.ResponseWriter, _ *http.Request) {
			reply(w, map[string]any{"order_id": "order-1"})
		},
		"nothing in time": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		server := httptest.NewServer(spoil)
		got := client(t, server.URL, "", 1).Deduct(t.Context(), loadtest.Request{
			Endpoint: "/deduct", SKU: "x", Quantity: 1, RequestID: "r", Timeout: time.Second,
		})
		server.Close()
		late := strings.Contains(got.Error, "no reply within the timeout")
		if got.Outcome != loadtest.Unknown || got.Error == "" || late != (name == "nothing in time") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Pages are read until there is no next one. A service that gives a cursor twice would be read for ever.
func TestOrdersAreReadPageByPage(t *testing.T) {
	for _, row := range []struct {
		next map[string]string // cursor of a page: that of the next
		want int
		err  string
	}{
		{map[string]string{"": "a", "a": "b"}, 3, ""},
		{map[string]string{"": "a", "a": "b", "b": "a"}, 0, "a cursor that it gave before"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cursor := r.URL.Query().Get("cursor")
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"orders":[{"order_id":"o%s","sku":"x"}],"next":%q}`, cursor, row.next[cursor])
		}))
		orders, err := client(t, server.URL, "", 1).Orders(t.Context(), "redis", "x")
		server.Close()
		wrong := (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err)
		if wrong || len(orders) != row.want {
			t.Errorf("%v: %d orders, %v; want %d, %q", row.next, len(orders), err, row.want, row.err)
		}
	}
}

func TestDeductSendsTheWholeRequest(t *testing.T) {
	for _, row := range []struct {
		name    string
		request loadtest.Request
		want    string // target of the request
		header  map[string]string
	}{
		{
			"plain",
			loadtest.Request{Endpoint: "/deduct_stock_zk", SKU: "a b", Quantity: 3, RequestID: "r-1"},
			"/deduct_stock_zk?quantity=3&sku=a+b",
			map[string]string{"X-Request-Id": "r-1", "Authorization": "", "Idempotency-Key": ""},
		},
		{
			"with lab options",
			loadtest.Request{
				Endpoint: "/deduct_stock", Store: "mysql", SKU: "s", Quantity: 1, Wait: new(time.Duration(0)),
				IdempotencyKey: "k",
				Lab: loadtest.LabOptions{
					Pause: []string{"after_lock", "before_write"}, Hold: 20 * time.Millisecond, Unfenced: true,
					IgnoreLoss: true,
					Nested:     "holder",
				},
			},
			"/deduct_stock?fencing=off&heed_loss=off&hold=20ms&nested=holder&pause=after_lock%2Cbefore_write" +
				"&quantity=1&sku=s&store=mysql&wait=0s",
			map[string]string{"Authorization": "Bearer demo", "Idempotency-Key": "k"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost || r.URL.String() != row.want {
					t.Errorf("got %s %s, want POST %s", r.Method, r.URL, row.want)
				}
				for name, want := range row.header {
					if got := r.Header.Get(name); got != want {
						t.Errorf("%s: got %q, want %q", name, got, want)
					}
				}
			}))
			defer server.Close()
			client(t, server.URL, "demo", 1).Deduct(t.Context(), row.request)
		})
	}
}

// The requests of a run are sent on the connections that were opened before it.
func TestWarmConnectionsAreUsed(t *testing.T) {
	const workers = 8
	var mu sync.Mutex
	var together, all sync.WaitGroup
	together.Add(workers)
	warm := make(map[string]bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Method == http.MethodGet {
			warm[r.RemoteAddr] = true
			mu.Unlock()
			fmt.Fprintln(w, "ok") // as an instance does: a connection is busy until its reply is read
			return
		}
		if !warm[r.RemoteAddr] {
			t.Errorf("request on the new connection %s", r.RemoteAddr)
		}
		mu.Unlock()
		together.Done()
		together.Wait()
	}))
	defer server.Close()
	c := client(t, server.URL, "", workers)
	c.Warm(t.Context(), workers)
	if len(warm) != workers {
		t.Errorf("%d connections were opened for %d workers", len(warm), workers)
	}
	for range workers {
		all.Go(func() { c.Deduct(t.Context(), loadtest.Request{Endpoint: "/deduct", SKU: "x", Quantity: 1}) })
	}
	all.Wait()
}

// With a concurrency of 0 no connection is used twice.
func TestClientWithAConnectionForEachRequest(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, struct{}{}) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	c := client(t, server.URL, "", 0)
	for range 3 {
		if err := c.Call(t.Context(), http.MethodDelete, "/v1/lab/pauses/r", nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 3 {
		t.Errorf("3 requests used %d connections, want 3", n)
	}
}

func TestSleepReturnsTheCause(t *testing.T) {
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := loadtest.Sleep(ctx, 0); err != nil {
		t.Errorf("Sleep(0): %v, want nil", err)
	}
	if err := loadtest.Sleep(ctx, time.Millisecond); err != nil {
		t.Errorf("Sleep(1ms): %v, want nil", err)
	}
	cancel(stop)
	for _, d := range []time.Duration{0, time.Hour} {
		if err := loadtest.Sleep(ctx, d); !errors.Is(err, stop) {
			t.Errorf("Sleep(%v) after the end: %v, want %v", d, err, stop)
		}
	}
}

// A reply has 4 MiB at most. A longer one is not read to its end.
func TestTheLongestReply(t *testing.T) {
	const most = 4 << 20
	for size, good := range map[int]bool{most: true, most + 1: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"text":%q}`, strings.Repeat("x", size-len(`{"text":""}`)))
		}))
		c, err := loadtest.NewClient(server.URL, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Text string }
		if err := c.CallAs(t.Context(), "ann", http.MethodGet, "/v1/any", nil, &got); good != (err == nil) {
			t.Errorf("%d bytes: %v", size, err)
		}
		c.Close()
		server.Close()
	}
}
