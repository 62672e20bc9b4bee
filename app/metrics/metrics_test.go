package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/app/metrics"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape is what Prometheus would read, by series: name{labels} in the order of the exposition.
func scrape(t *testing.T, m *metrics.Metrics) map[string]float64 {
	t.Helper()
	reply := httptest.NewRecorder()
	m.Handler().ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	if reply.Code != http.StatusOK || !strings.HasPrefix(reply.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s: %s", reply.Code, reply.Header().Get("Content-Type"), reply.Body)
	}
	series := make(map[string]float64)
	for line := range strings.Lines(reply.Body.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		cut := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		series[line[:cut]] = value
	}
	return series
}

// are fails unless those series have those values.
func are(t *testing.T, m *metrics.Metrics, want map[string]float64) {
	t.Helper()
	got := scrape(t, m)
	for name, value := range want {
		if v, ok := got[name]; !ok || v != value {
			t.Errorf("%s = %v (there: %t), want %v", name, v, ok, value)
		}
	}
}

// What is told is counted, under the labels that it is told with.
func TestSeries(t *testing.T) {
	m := metrics.New("v1.2.3", "app-1")
	are(t, m, map[string]float64{
		`stock_build_info{instance="app-1",version="v1.2.3"}`: 1, "stock_ready": 0,
	})
	for outcome, n := range map[string]int{"accepted": 3, "lock_busy": 1, "stale_fence": 2} {
		for range n {
			m.Deduction("redis-setnx", outcome)
		}
	}
	m.Deduction("none", "accepted")
	m.Problem("/v1/stock/:sku", http.MethodPost, "sold_out")
	m.Problem("none", "M", "not_found")
	m.Backend("redis", &driver.DownError{Server: "redis"})
	m.Backend("mysql", &driver.DownError{Server: "mysql", Full: true})
	m.DataLost("redis", true)
	m.Certificate("server_tls.cert", time.Unix(1800000000, 0))
	m.Ready(true)
	are(t, m, map[string]float64{
		`stock_deductions_total{outcome="accepted",strategy="redis-setnx"}`:             3,
		`stock_deductions_total{outcome="lock_busy",strategy="redis-setnx"}`:            1,
		`stock_deductions_total{outcome="stale_fence",strategy="redis-setnx"}`:          2,
		`stock_deductions_total{outcome="accepted",strategy="none"}`:                    1,
		`stock_stale_fence_total{strategy="redis-setnx"}`:                               2,
		`stock_problems_total{method="POST",problem="sold_out",route="/v1/stock/:sku"}`: 1,
		`stock_problems_total{method="other",problem="not_found",route="none"}`:         1,
		`stock_backend_up{backend="redis"}`:                                             0,
		`stock_backend_full{backend="redis"}`:                                           0,
		`stock_backend_full{backend="mysql"}`:                                           1,
		`stock_store_data_lost{store="redis"}`:                                          1,
		`stock_certificate_end_timestamp_seconds{setting="server_tls.cert"}`:            1800000000,
		"stock_ready": 1,
	})
	m.Backend("redis", nil)
	m.Backend("mysql", nil)
	m.DataLost("redis", false)
	m.Ready(false)
	are(t, m, map[string]float64{
		`stock_backend_up{backend="redis"}`: 1, `stock_backend_full{backend="mysql"}`: 0,
		`stock_store_data_lost{store="redis"}`: 0, "stock_ready": 0,
	})
}

func TestRequests(t *testing.T) {
	m := metrics.New("dev", "app-1")
	m.Request("/deduct_stock", http.MethodPost, 200, 3*time.Millisecond)
	m.Request("/deduct_stock", http.MethodPost, 200, 300*time.Millisecond)
	m.Request("/deduct_stock", http.MethodPost, 409, 2*time.Minute)
	are(t, m, map[string]float64{
		`stock_http_request_seconds_count{method="POST",route="/deduct_stock",status="200"}`:               2,
		`stock_http_request_seconds_sum{method="POST",route="/deduct_stock",status="200"}`:                 .303,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="200",le="0.005"}`:   1,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="200",le="0.25"}`:    1,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="200",le="0.5"}`:     2,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="409",le="60"}`:      0,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="409",le="+Inf"}`:    1,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="409",le="0.0001"}`:  0,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="200",le="0.00025"}`: 0,
	})
}

// Anybody can send any method, and a series lives as long as the process.
func TestNoSeriesExplosion(t *testing.T) {
	m := metrics.New("dev", "app-1")
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"} {
		m.Request("none", method, 404, time.Millisecond)
		are(
			t,
			m,
			map[string]float64{
				fmt.Sprintf(`stock_http_request_seconds_count{method=%q,route="none",status="404"}`, method): 1,
			},
		)
	}
	m.Request("none", "M", 405, time.Millisecond)
	before := len(scrape(t, m))
	for i := range 100 {
		m.Request("none", fmt.Sprint("M", i), 405, time.Millisecond)
		m.Request("none", strings.Repeat("get", i+1), 405, time.Millisecond)
	}
	if after := len(scrape(t, m)); after != before {
		t.Errorf("%d series became %d by methods that nobody knows", before, after)
	}
	are(t, m, map[string]float64{`stock_http_request_seconds_count{method="other",route="none",status="405"}`: 201})
}

// A rate needs a series before the first event, or the first one is never seen.
func TestLockSeriesExistFromTheStart(t *testing.T) {
	m := metrics.New("dev", "app-1")
	m.Lock("zk-sequential")
	are(t, m, map[string]float64{
		`stock_lock_wait_seconds_count{strategy="zk-sequential"}`: 0,
		`stock_lock_hold_seconds_count{strategy="zk-sequential"}`: 0,
		`stock_lock_lost_total{strategy="zk-sequential"}`:         0,
		`stock_lock_stranded_total{strategy="zk-sequential"}`:     0,
		`stock_lock_abandoned_total{strategy="zk-sequential"}`:    0,
		`stock_lock_wakeups_total{strategy="zk-sequential"}`:      0,
		`stock_stale_fence_total{strategy="zk-sequential"}`:       0,
	})
}

func TestLockOutcomes(t *testing.T) {
	m := metrics.New("dev", "app-1")
	e := m.Lock("redis-watchdog")
	for outcome, errs := range map[string][]error{
		"acquired": {nil, nil},
		"held":     {&lock.HeldError{Key: "k"}, errors.Join(&lock.HeldError{Key: "k"}, context.DeadlineExceeded)},
		"down": {
			&driver.DownError{Server: "redis"},
			errors.Join(&lock.HeldError{Key: "k"}, &driver.DownError{Server: "redis"}),
			driver.Down("ask", errors.New("x")),
		},
		"error": {errors.New("something else")},

		"overloaded": {fmt.Errorf("acquire: %w", lock.ErrOverloaded)},
	} {
		for _, err := range errs {
			e.Waited(t.Context(), time.Millisecond, err)
		}
		are(t, m, map[string]float64{
			fmt.Sprintf(`stock_lock_acquire_total{outcome=%q,strategy="redis-watchdog"}`, outcome): float64(len(errs)),
		})
	}
	are(t, m, map[string]float64{`stock_lock_wait_seconds_count{strategy="redis-watchdog"}`: 9})
	e.Abandoned()
	e.Ended(t.Context(), 20*time.Millisecond, nil)
	e.Ended(t.Context(), 20*time.Millisecond, lock.ErrLost)
	e.Stranded(errors.New("x"))
	for range 3 {
		e.Woken()
	}
	are(t, m, map[string]float64{
		`stock_lock_hold_seconds_count{strategy="redis-watchdog"}`:             2,
		`stock_lock_hold_seconds_bucket{strategy="redis-watchdog",le="0.025"}`: 2,
		`stock_lock_hold_seconds_bucket{strategy="redis-watchdog",le="0.01"}`:  0,
		`stock_lock_lost_total{strategy="redis-watchdog"}`:                     1,
		`stock_lock_stranded_total{strategy="redis-watchdog"}`:                 1,
		`stock_lock_abandoned_total{strategy="redis-watchdog"}`:                1,
		`stock_lock_wakeups_total{strategy="redis-watchdog"}`:                  3,
	})
}
