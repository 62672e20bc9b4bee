package app

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"example.com/stock/lock/locktest/servertest"
)

// An inbox is a collector: it keeps the spans that it gets over HTTP.
type inbox struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

func (in *inbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var request collector.ExportTraceServiceRequest
	body, _ := io.ReadAll(r.Body)
	if err := proto.Unmarshal(body, &request); err != nil || r.URL.Path != "/v1/traces" {
		panic("a request that is none of OTLP: " + r.URL.Path)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, of := range request.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			in.spans = append(in.spans, scope.Spans...)
		}
	}
}

func (in *inbox) all() []*otlp.Span {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.spans)
}

// path returns the names of the spans from the root of a trace to s.
func path(all []*otlp.Span, s *otlp.Span) string {
	above := slices.IndexFunc(all, func(other *otlp.Span) bool { return slices.Equal(other.SpanId, s.ParentSpanId) })
	if above < 0 {
		return s.Name
	}
	return path(all, all[above]) + " > " + s.Name
}

// sendTraced is send in the trace of a client.
func (i *instance) sendTraced(t *testing.T, path, traceparent string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", traceparent)
	resp, err := i.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(body), err}
}

const clientTrace = "4bf92f3577b34da6a3ce929d0e0e4736"

// A sale is one trace, from its traceparent to the calls of the servers, which tells nothing of what is sold. Its log
// line and its problem have the id of the trace, and also those of a request that nobody wanted to be sampled.
func TestASaleIsATrace(t *testing.T) {
	in := &inbox{}
	server := httptest.NewServer(in)
	t.Cleanup(server.Close)
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	i := begin(t, append(everything(t), "--store=mysql")...)
	i.ready(t, "mysql", "redis", "zookeeper")
	sku := own(t)
	i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=1", http.StatusOK)
	const sampled, other = "00-" + clientTrace + "-00f067aa0ba902b7-01", "00f067aa0ba902b700f067aa0ba902b7"
	for _, endpoint := range []string{"/deduct_stock_zk", "/deduct_stock_redisson", "/deduct_stock_atomic"} {
		i.sendTraced(t, endpoint+"?sku="+sku, sampled)
	}
	refused := i.sendTraced(t, "/deduct_stock_zk?sku="+sku, "00-"+other+"-00f067aa0ba902b7-00")
	if refused.field("trace_id") != other {
		t.Errorf("the problem of a request that is not sampled: %s", refused.body)
	}
	for _, id := range []string{clientTrace, other} {
		if !strings.Contains(i.log.String(), "trace_id="+id) {
			t.Errorf("the log lacks trace %s", id)
		}
	}
	var found []string
	want := []string{
		"POST /deduct_stock_zk > lock zk-sequential > zookeeper enter", "POST /deduct_stock_zk > sql.conn.query",
		"POST /deduct_stock_redisson > lock redis-watchdog > evalsha", "POST /deduct_stock_atomic",
	}
	servertest.Eventually(t, time.Minute, "the spans have come", func() (bool, string) {
		found = nil
		all := in.all()
		for _, s := range all {
			if hex.EncodeToString(s.TraceId) == clientTrace {
				found = append(found, path(all, s))
			}
		}
		has := func(one string) bool { return slices.Contains(found, one) }
		return !slices.ContainsFunc(want, func(one string) bool { return !has(one) }), strings.Join(found, "\n")
	})
	for _, s := range in.all() {
		if hex.EncodeToString(s.TraceId) == other {
			t.Errorf("a span of a request that is not sampled: %s", s.Name)
		}
		if text, err := json.Marshal(s); err != nil || strings.Contains(string(text), sku) {
			t.Errorf("%s tells the SKU: %s, %v", s.Name, text, err)
		}
	}
}

// A collector that does not answer costs no sale and no clean end, and is logged once.
func TestACollectorThatIsDownCostsNoSale(t *testing.T) {
	gone := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(gone) })
	for name, value := range map[string]string{
		"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": hung.URL, "OTEL_BSP_SCHEDULE_DELAY": "50",
		"OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_EXPORTER_OTLP_TIMEOUT": "200",
	} {
		t.Setenv(name, value)
	}
	i := begin(t, backends("--redis-url=redis://"+servers.Redis(t).Addr, "--store=redis")...)
	i.ready(t, "redis")
	i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"?quantity=1000", http.StatusOK)
	sell := func() { i.must(t, http.MethodPost, "/deduct_stock_atomic?sku="+own(t), http.StatusOK) }
	for range 50 { // more spans than fit into the queue
		sell()
	}
	said := func() int { return strings.Count(i.log.String(), "the collector takes no spans") }
	servertest.Eventually(t, time.Minute, "it is logged", func() (bool, string) { return said() > 0, "" })
	sell()
	i.end(t)
	if said() != 1 {
		t.Errorf("%d lines about the collector", said())
	}
}
