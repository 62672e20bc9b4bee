package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/app/metrics"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scrape is what Prometheus would read: a line for each series.
func scrape(m *metrics.Metrics) []string {
	reply := httptest.NewRecorder()
	m.Handler().ServeHTTP(reply, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return strings.Split(reply.Body.String(), "\n")
}

// are fails unless those lines are there.
func are(t *testing.T, m *metrics.Metrics, want ...string) {
	t.Helper()
	got := scrape(m)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no line %s", line)
		}
	}
}

// What is told is counted, under the labels that it is told with.
func TestSeries(t *testing.T) {
	m := metrics.New("v1.2.3", "app-1")
	are(t, m, `stock_build_info{instance="app-1",version="v1.2.3"} 1`, "stock_ready 0")
	for outcome, n := range map[string]int{"accepted": 3, "lock_busy": 1, "stale_fence": 2} {
		for range n {
			m.Deduction("redis-setnx", outcome)
		}
	}
	m.Deduction("none", "accepted")
	m.Problem("/v1/stock/:sku", http.MethodPost, "sold_out")
	m.Backend("redis", &driver.DownError{Server: "redis"})
	m.Backend("mysql", &driver.DownError{Server: "mysql", Full: true})
	m.DataLost("redis", true)
	m.Certificate("server_tls.cert", time.Unix(1800000000, 0))
	m.Ready(true)
	m.Request("/deduct_stock", http.MethodPost, 200, 3*time.Millisecond)
	m.Request("/deduct_stock", http.MethodPost, 200, 300*time.Millisecond)
	are(t, m,
		`stock_deductions_total{outcome="accepted",strategy="redis-setnx"} 3`,
		`stock_deductions_total{outcome="lock_busy",strategy="redis-setnx"} 1`,
		`stock_deductions_total{outcome="accepted",strategy="none"} 1`,
		`stock_stale_fence_total{strategy="redis-setnx"} 2`,
		`stock_problems_total{method="POST",problem="sold_out",route="/v1/stock/:sku"} 1`,
		`stock_backend_up{backend="redis"} 0`,
		`stock_backend_full{backend="redis"} 0`,
		`stock_backend_full{backend="mysql"} 1`,
		`stock_store_data_lost{store="redis"} 1`,
		`stock_certificate_end_timestamp_seconds{setting="server_tls.cert"} 1.8e+09`,
		"stock_ready 1",
		`stock_http_request_seconds_count{method="POST",route="/deduct_stock",status="200"} 2`,
		`stock_http_request_seconds_bucket{method="POST",route="/deduct_stock",status="200",le="0.005"} 1`,
	)
	m.Backend("mysql", nil)
	m.DataLost("redis", false)
	m.Ready(false)
	are(t, m, `stock_backend_up{backend="mysql"} 1`, `stock_backend_full{backend="mysql"} 0`,
		`stock_store_data_lost{store="redis"} 0`, "stock_ready 0")
}

// Anybody can send any method, and a series lives as long as the process.
func TestNoSeriesExplosion(t *testing.T) {
	m := metrics.New("dev", "app-1")
	m.Request("none", "M", 405, time.Millisecond)
	before := len(scrape(m))
	for i := range 100 {
		m.Request("none", fmt.Sprint("M", i), 405, time.Millisecond)
		m.Request("none", strings.Repeat("get", i+1), 405, time.Millisecond)
	}
	if after := len(scrape(m)); after != before {
		t.Errorf("%d lines became %d by methods that nobody knows", before, after)
	}
	are(t, m, `stock_http_request_seconds_count{method="other",route="none",status="405"} 201`)
}

// What a lock tells is counted. A rate needs a series before the first event, or the first one is never seen.
func TestLocks(t *testing.T) {
	m := metrics.New("dev", "app-1")
	counts := func(lost, stranded, abandoned, wakeups, holds int) {
		t.Helper()
		for name, n := range map[string]int{
			"lock_lost_total": lost, "lock_stranded_total": stranded, "lock_abandoned_total": abandoned,
			"lock_wakeups_total": wakeups, "lock_hold_seconds_count": holds, "stale_fence_total": 0,
		} {
			are(t, m, fmt.Sprintf(`stock_%s{strategy="zk-sequential"} %d`, name, n))
		}
	}
	e := m.Lock("zk-sequential")
	counts(0, 0, 0, 0, 0)
	e.Abandoned()
	e.Ended(t.Context(), 20*time.Millisecond, nil)
	e.Ended(t.Context(), 20*time.Millisecond, lock.ErrLost)
	e.Stranded(errors.New("x"))
	for range 3 {
		e.Woken()
	}
	counts(1, 1, 1, 3, 2)
	for outcome, err := range map[string]error{
		"acquired":    nil,
		"held":        errors.Join(&lock.HeldError{Key: "k"}, context.DeadlineExceeded),
		"down":        errors.Join(&lock.HeldError{Key: "k"}, &driver.DownError{Server: "redis"}),
		"error":       errors.New("something else"),
		"overloaded":  fmt.Errorf("acquire: %w", lock.ErrOverloaded),
		"no_capacity": lock.ErrNoCapacity,
	} {
		e.Waited(t.Context(), time.Millisecond, err)
		are(t, m, fmt.Sprintf(`stock_lock_acquire_total{outcome=%q,strategy="zk-sequential"} 1`, outcome))
	}
	are(t, m, `stock_lock_wait_seconds_count{strategy="zk-sequential"} 6`)
}
