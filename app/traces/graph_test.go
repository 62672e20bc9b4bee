package traces_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

const order = "POST /v1/orders"

// root returns the server span of the trace with that id.
func root(all []span, trace string) (span, bool) {
	i := slices.IndexFunc(all, func(s span) bool { return s.trace == trace && s.name == order })
	if i < 0 {
		return span{}, false
	}
	return all[i], true
}

// finds reports whether spans with all these names are reached from the root of a trace.
func finds(all []span, trace string, names ...string) bool {
	from, ok := root(all, trace)
	if !ok {
		return false
	}
	found := reached(all, from)
	for _, name := range names {
		if len(named(found, name)) == 0 {
			return false
		}
	}
	return true
}

const client = "4bf92f3577b34da6a3ce929d0e0e4736" // the trace of a client

// parent is a good traceparent of the client.
const parent = "00-" + client + "-00f067aa0ba902b7-01"

// One checkout is one connected graph, from nginx to what the consumer does with its event, on each store, and with a
// lock.
func TestACheckoutIsOneGraph(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, store string
		env         []string
		want        []string // besides what all have
	}{
		{"mysql", "mysql", nil, []string{"wait", "batch", "START SELECT", "INSERT COMMIT"}},
		{"redis", "redis", nil, []string{"wait", "batch", "EVALSHA"}},
		{"zookeeper", "mysql", []string{"STOCK_ORDERS_STRATEGY=zk-sequential"}, []string{
			"lock zk-sequential", "zookeeper enter", "START SELECT", "INSERT COMMIT",
		}},
	}
	for _, row := range stacktest.Some(2, rows) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			s := newShop(t, row.store, append(traced(in.URL), row.env...)...)
			s.inbox = in
			s.stock("a", 10)
			s.relay(traced(in.URL)...)
			s.consumer(traced(in.URL)...)
			// A Redis that does not know a script yet is asked twice.
			s.checkout("a")
			if a := s.checkout("a", "traceparent", parent); a.status != http.StatusCreated {
				t.Fatal(a)
			}
			want := append([]string{"step", "read", "think", "write", "send stock.sell", "consume"}, row.want...)
			all := s.await("the graph from the request to the consumer", func(all []span) bool {
				return finds(all, client, want...)
			})
			from, _ := root(all, client)
			if from.parent != client+"/00f067aa0ba902b7" {
				t.Errorf("the parent of the first span is %s", from.parent)
			}
			steps := named(all, "step")
			step := steps[slices.IndexFunc(steps, func(s span) bool { return s.trace == client })]
			for _, name := range []string{"send stock.sell", "consume"} {
				i := slices.IndexFunc(all, func(s span) bool {
					return s.name == name && slices.Contains(s.links, step.id)
				})
				if i < 0 || all[i].parent != "" || all[i].trace == client {
					t.Errorf("%s: no span in a trace of its own links to the step", name)
				}
			}
			if step.attributes["user.id"] != "ann" || !strings.Contains(step.attributes["stock.skus"], `"a"`) {
				t.Errorf("the step has %v", step.attributes)
			}
			if *picture && row.name == "mysql" {
				draw(t, all, from)
			}
		})
	}
}

// A relay that is killed after the sale was written, while it sends the event, breaks no link.
func TestTheGraphOutlivesTheRelay(t *testing.T) {
	t.Parallel()
	s := newShop(t, "mysql")
	var refuse atomic.Bool
	var mu sync.Mutex
	var headers []string
	came := make(chan struct{}, 1000)
	refuse.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"type":"stock.sell"`) {
			return
		}
		if refuse.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			came <- struct{}{}
			return
		}
		mu.Lock()
		defer mu.Unlock()
		headers = append(headers, r.Header.Get("traceparent"), string(body))
	}))
	t.Cleanup(receiver.Close)
	env := append(traced(s.inbox.URL), "STOCK_RELAY_SINK=webhook", "STOCK_RELAY_WEBHOOK_URL="+receiver.URL,
		"STOCK_RELAY_WEBHOOK_SECRETS=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "STOCK_RELAY_WEBHOOK_INTERNAL=true")
	s.stock("a", 10)
	kill := s.relay(env...)
	s.checkout("a", "traceparent", parent)
	select {
	case <-came:
	case <-time.After(time.Minute):
		t.Fatal("the relay does not send")
	}
	kill()
	refuse.Store(false)
	s.relay(env...)
	all := s.await("the delivery by the next relay", func(all []span) bool {
		mu.Lock()
		defer mu.Unlock()
		return len(headers) > 0 && finds(all, client, "send stock.sell")
	})
	// The receiver can continue either trace: that of the delivery by the header, that of the sale by the event.
	mu.Lock()
	defer mu.Unlock()
	sent := slices.ContainsFunc(named(all, "send stock.sell"), func(s span) bool {
		return strings.Contains(headers[0], strings.ReplaceAll(s.id, "/", "-"))
	})
	if !sent || !strings.Contains(headers[1], `"traceparent":"00-`+client) ||
		strings.Count(headers[1], "traceparent") != 1 {
		t.Errorf("traceparent %s, event %s", headers[0], headers[1])
	}
}

// Requests of several traces that are sold in one step are one graph: the batch has a link to each, and each to it.
func TestABatchLinksToItsMembers(t *testing.T) {
	t.Parallel()
	for _, name := range stacktest.Some(1, []string{"merged", "orders", "zk-merged"}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			env := append(traced(in.URL), "STOCK_TRACES_ATTRIBUTES=")
			sell := func(s *shop) { s.checkout("a") }
			if name != "orders" {
				env = append(env, "STOCK_PROFILE=demo", "STOCK_STRATEGIES_ENABLED="+name, "STOCK_SEED_QUANTITY=1000000")
				path := "/deduct_stock_" + strings.ReplaceAll(name, "-", "_")
				sell = func(s *shop) { s.do("POST", path, "") }
			}
			s := newShop(t, "mysql", env...)
			s.inbox = in
			if name == "orders" {
				s.stock("a", 1_000_000)
			}
			var batch span
			s.await("a batch of several", func(all []span) bool {
				var requests sync.WaitGroup
				for range 16 {
					requests.Go(func() { sell(s) })
				}
				requests.Wait()
				i := slices.IndexFunc(all, func(s span) bool { return s.name == "batch" && len(s.links) > 1 })
				if i < 0 {
					return false
				}
				batch = all[i]
				return !slices.ContainsFunc(batch.links, func(id string) bool {
					return !slices.ContainsFunc(all, func(s span) bool { return s.id == id })
				})
			})
			all := in.all()
			if batch.parent != batch.links[0] {
				t.Errorf("the parent of the batch is %s, and its first member %s", batch.parent, batch.links[0])
			}
			for _, one := range all {
				if slices.Contains(batch.links, one.id) && !slices.Contains(one.links, batch.id) {
					t.Errorf("member %v has no link to its batch %s", one, batch.id)
				}
				if one.attributes["stock.skus"] != "" || one.attributes["user.id"] != "" ||
					one.attributes["url.path"] != "" {
					t.Errorf("%s has %v, but is configured to tell nothing of the sale", one.name, one.attributes)
				}
			}
			below := func(s span) bool { return s.parent == batch.id && strings.HasSuffix(s.name, "COMMIT") }
			if !slices.ContainsFunc(all, below) {
				t.Error("the write is not below the batch")
			}
		})
	}
}

// The id of a trace is nginx's own or that of a good traceparent. A client's X-Request-Id does not choose it. Log
// lines, problems and exemplars have it.
func TestWhereTheTraceIDIs(t *testing.T) {
	t.Parallel()
	s := newShop(t, "mysql")
	s.stock("a", 1)
	const chosen = "0123456789abcdef0123456789abcdef"
	s.checkout("a", "X-Request-Id", chosen, "traceparent", "00-"+strings.ToUpper(chosen)+"-00f067aa0ba902b7-01")
	refused := s.checkout("a", "traceparent", parent)
	if refused.status != http.StatusConflict || refused.body["trace_id"] != client {
		t.Errorf("refused: %v", refused.body)
	}
	all := s.await("both requests", func(all []span) bool { return len(named(all, order)) == 2 })
	for _, one := range named(all, order) {
		if one.trace == chosen {
			t.Error("the client has chosen the trace by its request id")
		}
		if one.trace == client && (one.attributes["stock.problem"] != "sold_out" ||
			one.attributes["http.route"] != "/v1/orders") {
			t.Errorf("the refused request has %v", one.attributes)
		}
	}
	stacktest.Eventually(t, time.Minute, "the log has the trace", func() (bool, string) {
		text, _ := os.ReadFile(s.app.Log)
		return strings.Contains(string(text), `"trace_id":"`+client+`"`), ""
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.app.Admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/openmetrics-text")
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(text), `# {trace_id="`+client+`"}`) {
		t.Errorf("no bucket has the trace as its exemplar, %v", err)
	}
}

// Without OTEL_TRACES_EXPORTER, nothing is traced, whatever the client sends, and the event is as before.
func TestOffByDefault(t *testing.T) {
	t.Parallel()
	for _, row := range stacktest.Some(1, []struct {
		name string
		env  []string
	}{{"disabled", []string{"OTEL_TRACES_EXPORTER=otlp", "OTEL_SDK_DISABLED=true"}}, {"no exporter", nil}}) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			in := newInbox(t)
			env := append(row.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+in.URL, "OTEL_BSP_SCHEDULE_DELAY=50")
			s := newShop(t, "mysql", env...)
			s.stock("a", 1)
			s.relay(env...)
			s.checkout("a", "traceparent", parent)
			if refused := s.checkout("a", "traceparent", parent); refused.body["trace_id"] != nil {
				t.Errorf("the problem has a trace: %v", refused.body)
			}
			rdb := redis.NewClient(&redis.Options{Addr: s.Server(string(stack.Redis)).Addr})
			t.Cleanup(func() { _ = rdb.Close() })
			stacktest.Eventually(t, time.Minute, "the event is delivered", func() (bool, string) {
				list, _ := rdb.XRange(t.Context(), "stock:{a}:events", "2-0", "2-0").Result()
				if len(list) == 1 && strings.Contains(list[0].Values["event"].(string), "traceparent") {
					t.Error(list)
				}
				return len(list) == 1, ""
			})
			var with, without int
			row := s.db.QueryRow("SELECT COUNT(traceparent), SUM(traceparent IS NULL) FROM movements")
			if err := row.Scan(&with, &without); err != nil || with != 0 || without != 2 {
				t.Errorf("%d movements with a traceparent, %d without, %v", with, without, err)
			}
			if n := in.requests(); n != 0 {
				t.Errorf("%d requests to the collector", n)
			}
			if text, _ := os.ReadFile(s.app.Log); strings.Contains(string(text), "trace_id") {
				t.Error("the log has a trace")
			}
		})
	}
}

// A collector that is down, or does not answer, costs no sale and no clean end, and is logged once.
func TestACollectorThatIsDownCostsNoSale(t *testing.T) {
	t.Parallel()
	asked, gone := make(chan struct{}, 1000), make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-gone
	}))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(gone) })
	for _, row := range stacktest.Some(1, [][2]string{{"hung", hung.URL}, {"down", "http://127.0.0.1:1"}}) {
		t.Run(row[0], func(t *testing.T) {
			s := newShop(t, "mysql", append(traced(row[1]), "OTEL_BSP_MAX_QUEUE_SIZE=16",
				"OTEL_EXPORTER_OTLP_TIMEOUT=200", "STOCK_DRAIN=0s")...)
			s.stock("a", 1000)
			for range 50 { // more spans than fit into the queue
				if a := s.checkout("a"); a.status != http.StatusCreated {
					t.Fatal(a)
				}
			}
			said := func() int {
				text, _ := os.ReadFile(s.app.Log)
				return strings.Count(string(text), "the collector takes no spans")
			}
			stacktest.Eventually(t, time.Minute, "it is logged", func() (bool, string) { return said() > 0, "" })
			for range 10 {
				if a := s.checkout("a"); a.status != http.StatusCreated {
					t.Fatal(a)
				}
			}
			if err := s.app.Stop(); err != nil {
				t.Error(err)
			}
			if text, _ := os.ReadFile(s.app.Log); said() != 1 || !strings.Contains(string(text), `"msg":"stopped"`) {
				t.Errorf("%d lines about the collector:\n%s", said(), text)
			}
		})
	}
}
