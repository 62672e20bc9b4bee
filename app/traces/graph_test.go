package traces_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// root returns the server span of the trace with that id.
func root(all []span, trace string) (span, bool) {
	i := slices.IndexFunc(all, func(s span) bool { return s.trace == trace && strings.HasPrefix(s.name, "POST ") })
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

// One sale is one connected graph, from nginx to the calls of the servers, on each store, under a lock and in a batch.
func TestASaleIsOneGraph(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, path string
		servers    []server.Kind
		want       []string // besides what all have
	}{
		{"zookeeper and mysql", "/deduct_stock_zk?sku=a", []server.Kind{server.MySQL, server.ZooKeeper}, []string{
			"wait", "read", "think", "write", "lock zk-sequential", "zookeeper enter", "SELECT",
		}},
		{"redis", "/deduct_stock_redisson?sku=a&store=redis", []server.Kind{server.Redis, server.MySQL}, []string{
			"wait", "read", "think", "write", "lock redis-watchdog", "EVALSHA",
		}},
		{"a batch", "/deduct_stock_merged?sku=a", []server.Kind{server.MySQL}, []string{"wait", "write", "batch"}},
	}
	for _, row := range servertest.Some(2, rows) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDemo(t, row.servers)
			for _, store := range []string{"mysql", "redis"} {
				d.do(http.MethodPut, "/v1/stock/a?quantity=10&store="+store)
			}
			// A Redis that does not know a script yet is asked twice.
			d.do(http.MethodPost, row.path)
			if a := d.do(http.MethodPost, row.path, "traceparent", parent); a.status != http.StatusOK {
				t.Fatal(a)
			}
			all := d.await("the graph of the request", func(all []span) bool {
				return finds(all, client, append(row.want, "sale")...)
			})
			from, _ := root(all, client)
			if from.parent != client+"/00f067aa0ba902b7" {
				t.Errorf("the parent of the first span is %s", from.parent)
			}
			for _, one := range named(all, "sale") {
				if one.attributes["stock.sku"] != "a" || one.attributes["stock.strategy"] == "" {
					t.Errorf("the sale has %v", one.attributes)
				}
			}
			if *picture && row.name == "zookeeper and mysql" {
				draw(t, reached(all, from))
			}
		})
	}
}

// Requests of several traces that are sold in one step are one graph: the batch has a link to each, and each to it.
func TestABatchLinksToItsMembers(t *testing.T) {
	t.Parallel()
	d := newDemo(t, []server.Kind{server.MySQL}, "STOCK_TRACES_SKU=false")
	d.stock("1000000")
	var batch span
	d.await("a batch of several", func(all []span) bool {
		var requests sync.WaitGroup
		for range 16 {
			requests.Go(func() { d.do(http.MethodPost, "/deduct_stock_merged?sku=a") })
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
	all := d.inbox.all()
	if batch.parent != batch.links[0] {
		t.Errorf("the parent of the batch is %s, and its first member %s", batch.parent, batch.links[0])
	}
	for _, one := range all {
		if slices.Contains(batch.links, one.id) && !slices.Contains(one.links, batch.id) {
			t.Errorf("member %v has no link to its batch %s", one, batch.id)
		}
		if one.attributes["stock.sku"] != "" || one.attributes["url.path"] != "" {
			t.Errorf("%s has %v, but is configured to tell nothing of the sale", one.name, one.attributes)
		}
	}
	below := func(s span) bool { return s.parent == batch.id && strings.HasSuffix(s.name, "COMMIT") }
	if !slices.ContainsFunc(all, below) {
		t.Error("the write is not below the batch")
	}
}

// The id of a trace is nginx's own or that of a good traceparent. A client's X-Request-Id does not choose it. Log
// lines, problems and exemplars have it.
func TestWhereTheTraceIDIs(t *testing.T) {
	t.Parallel()
	d := newDemo(t, []server.Kind{server.MySQL})
	d.stock("1")
	const chosen = "0123456789abcdef0123456789abcdef"
	d.sell("X-Request-Id", chosen, "traceparent", "00-"+strings.ToUpper(chosen)+"-00f067aa0ba902b7-01")
	refused := d.sell("traceparent", parent)
	if refused.status != http.StatusConflict || refused.body["trace_id"] != client {
		t.Errorf("refused: %v", refused.body)
	}
	all := d.await("both requests", func(all []span) bool { return len(named(all, "POST "+sale)) == 2 })
	for _, one := range named(all, "POST "+sale) {
		if one.trace == chosen {
			t.Error("the client has chosen the trace by its request id")
		}
		if one.trace == client && (one.attributes["stock.problem"] != "sold_out" ||
			one.attributes["http.route"] != sale) {
			t.Errorf("the refused request has %v", one.attributes)
		}
	}
	servertest.Eventually(t, time.Minute, "the log has the trace", func() (bool, string) {
		text, _ := os.ReadFile(d.app.Log)
		return strings.Contains(string(text), `"trace_id":"`+client+`"`), ""
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.app.Admin+"/metrics", nil)
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

// Without OTEL_TRACES_EXPORTER, nothing is traced, whatever the client sends.
func TestOffByDefault(t *testing.T) {
	t.Parallel()
	for _, row := range servertest.Some(1, []struct{ name, off string }{
		{"disabled", "OTEL_SDK_DISABLED=true"}, {"no exporter", "OTEL_TRACES_EXPORTER="},
	}) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDemo(t, []server.Kind{server.MySQL}, row.off)
			d.stock("1")
			if a := d.sell("traceparent", parent); a.status != http.StatusOK {
				t.Fatal(a)
			}
			if refused := d.sell("traceparent", parent); refused.body["trace_id"] != nil {
				t.Errorf("the problem has a trace: %v", refused.body)
			}
			if n := d.inbox.requests(); n != 0 {
				t.Errorf("%d requests to the collector", n)
			}
			if text, _ := os.ReadFile(d.app.Log); strings.Contains(string(text), "trace_id") {
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
	for _, row := range servertest.Some(1, [][2]string{{"hung", hung.URL}, {"down", "http://127.0.0.1:1"}}) {
		t.Run(row[0], func(t *testing.T) {
			d := newDemo(t, []server.Kind{server.MySQL}, "OTEL_EXPORTER_OTLP_ENDPOINT="+row[1],
				"OTEL_BSP_MAX_QUEUE_SIZE=16", "OTEL_EXPORTER_OTLP_TIMEOUT=200", "STOCK_DRAIN=0s")
			d.stock("1000")
			for range 50 { // more spans than fit into the queue
				if a := d.sell(); a.status != http.StatusOK {
					t.Fatal(a)
				}
			}
			said := func() int {
				text, _ := os.ReadFile(d.app.Log)
				return strings.Count(string(text), "the collector takes no spans")
			}
			servertest.Eventually(t, time.Minute, "it is logged", func() (bool, string) { return said() > 0, "" })
			for range 10 {
				if a := d.sell(); a.status != http.StatusOK {
					t.Fatal(a)
				}
			}
			if err := d.app.Stop(); err != nil {
				t.Error(err)
			}
			if text, _ := os.ReadFile(d.app.Log); said() != 1 || !strings.Contains(string(text), `"msg":"stopped"`) {
				t.Errorf("%d lines about the collector:\n%s", said(), text)
			}
		})
	}
}
