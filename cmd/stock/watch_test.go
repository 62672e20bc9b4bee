package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/stock/internal/words"
)

// exposed returns an instance that is not ready, has lost a lease, and refuses more at each scrape.
func exposed(t *testing.T) (addr string) {
	t.Helper()
	var scrapes atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := scrapes.Add(1)
		fmt.Fprintf(w, `stock_ready 0
stock_backend_up{backend="redis"} 1
stock_lock_lost_total{strategy="redis-watchdog"} 3
stock_lock_acquire_total{strategy="redis-watchdog",outcome="acquired"} %d
stock_problems_total{route="/v1/orders",method="POST",problem="sold_out"} %d
stock_http_request_seconds_count{route="/v1/reservations/:reservation_id/confirm",method="POST",status="200"} %d
`, 10*n, 10*n, 10*n)
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// A page by the instances themselves: who is silent, what is wrong, and nothing wider than 80 columns.
func TestWatchInstances(t *testing.T) {
	t.Parallel()
	addr := exposed(t)
	for lang, wants := range map[string][]string{
		"en": {"1 of 2 instances answer", "127.0.0.1:1 does not answer: connect: connection refused", "SALES"},
		"zh": {"2 个实例中 1 个响应", "127.0.0.1:1 没有响应：", "销售"},
	} {
		args := []string{"watch", "--once", "--every", "100ms", "--lang", lang, "--instances", addr + ",127.0.0.1:1"}
		out, _, err := run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range append(wants, "--prometheus", addr, "redis-watchdog", "sold_out", "0!", "3!") {
			if !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
		narrow(t, out)
		if strings.Contains(out, "\x1b") {
			t.Errorf("colours, without a terminal:\n%q", out)
		}
	}
}

func narrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		if n := words.Columns(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// A page by a Prometheus: it asks for the expressions, and shows the alerts with those that fire first.
func TestWatchPrometheus(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/alerts" {
			fmt.Fprint(w, `{"status":"success","data":{"alerts":[
{"labels":{"alertname":"StockNoRelay","severity":"ticket"},"annotations":{"summary":"No relay."},"state":"pending"},
{"labels":{"alertname":"StockDataLost","severity":"page"},"state":"firing",
 "annotations":{"summary":"Redis lost data.","summary_zh":"丢失数据。"}}]}}`)
			return
		}
		asked.Add(1)
		result := ""
		if r.FormValue("query") == "max by (store) (stock_store_data_lost)" {
			result = `{"metric":{"store":"redis"},"value":[1,"1"]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
	}))
	defer s.Close()
	for lang, summary := range map[string]string{"en": "Redis lost data.", "zh": "丢失数据。"} {
		out, _, err := run(t.Context(), "watch", "--prometheus", s.URL, "--lang", lang)
		fires, pending := strings.Index(out, "page StockDataLost"), strings.Index(out, "ticket StockNoRelay")
		said := strings.Contains(out, summary) && strings.Contains(out, "1!")
		if err != nil || fires < 0 || pending < fires || !said {
			t.Errorf("%v\n%s", err, out)
		}
		narrow(t, out)
	}
	if asked.Load() < 60 {
		t.Errorf("%d queries were sent", asked.Load())
	}
}

// A Prometheus that does not answer, or is none, is named on the page.
func TestWatchFails(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "hello")
	}))
	defer other.Close()
	for url, want := range map[string]string{
		"http://127.0.0.1:1": "connection refused", other.URL: "is no Prometheus",
	} {
		out, _, err := run(t.Context(), "watch", "--once", "--prometheus", url)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", url, err, out)
		}
	}
	for args, want := range map[string]string{
		"--prometheus localhost:9090": "--prometheus: must be a URL",
		"--instances 9090":            `one is "9090"`,
		"--every 1ms":                 "--every: must be 100ms or more, is 1ms",
		"--prometheus http://127.0.0.1:1 --instances a:1":  "none of the others can be",
		"--once --instances 127.0.0.1:1 --every 100ms now": "unknown command",
	} {
		_, _, err := run(t.Context(), append([]string{"watch"}, strings.Fields(args)...)...)
		says(t, err, want)
	}
}
