package loadtest_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// trivial is a service without a store: the least that a reply can cost.
func trivial(t testing.TB) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/strategies", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{
			"strategies": []loadtest.Strategy{
				{Name: "trivial", Endpoint: "/sell", Available: true, Promise: loadtest.Promise{Scope: "none"}},
			},
		})
	})
	mux.HandleFunc("/v1/stock/{sku}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, loadtest.Stock{SKU: r.PathValue("sku"), Quantity: 1})
	})
	mux.HandleFunc("GET /v1/stock/{sku}/orders",
		func(w http.ResponseWriter, _ *http.Request) { reply(w, map[string]any{"orders": []int{}}) })
	const soldOut = `{"type":"/problems/sold_out","status":409}`
	mux.HandleFunc("POST /sell", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, soldOut)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

func openLoop(tb testing.TB, duration, warmUp time.Duration) *loadtest.Result {
	tb.Helper()
	c, err := loadtest.NewClient(trivial(tb), "", 1000)
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	r, err := loadtest.Run(tb.Context(), c, loadtest.Plan{
		Recheck:  once(),
		Strategy: "trivial",
		Stock:    1,
		Rate:     loadtest.Rate{From: 5000, To: 5000},
		Arrivals: loadtest.Even,
		Duration: duration,
		WarmUp:   warmUp,
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// At 5,000 requests a second, all are sent, and none too early, on any computer. The number of late ones depends on the
// load of the computer, so only the benchmark checks it.
func TestOpenLoopSendsAll(t *testing.T) {
	r := openLoop(t, 200*time.Millisecond, 0)
	if len(r.Records)+r.Dropped != 1000 || r.Interrupted {
		t.Errorf("%d sent and %d dropped of 1000", len(r.Records), r.Dropped)
	}
	for _, record := range r.Records {
		if record.SentAt.Before(record.PlannedAt) || record.Latency() < record.Service() {
			t.Fatalf("%+v", record)
		}
	}
	t.Logf("late %d, by %.1f ms at most; dropped %d", r.Latency.Late, r.Latency.LongestLateMS, r.Dropped)
}

// BenchmarkOpenLoop sends 5,000 requests a second to a trivial endpoint of the same process, for five seconds. On two
// idle cores, less than 1 % leave late.
func BenchmarkOpenLoop(b *testing.B) {
	best := math.Inf(1)
	for b.Loop() {
		r := openLoop(b, 5*time.Second, time.Second)
		late := 100 * float64(r.Latency.Late+r.Dropped) / float64(len(r.Records)+r.Dropped)
		best = min(best, late)
		b.ReportMetric(r.Latency.Rate, "req/s")
		b.ReportMetric(late, "%late")
		b.ReportMetric(r.Latency.LongestLateMS, "ms-late-max")
		b.ReportMetric(r.Latency.All.P99, "ms-p99")
	}
	if best >= 1 {
		b.Errorf("%.2f %% were late or dropped in the best of %d runs, want less than 1 %%", best, b.N)
	}
}
