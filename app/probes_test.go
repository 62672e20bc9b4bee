package app

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/stock/app/health"
	"example.com/stock/app/metrics"
	"example.com/stock/lock/driver"
)

// What is logged and counted of a backend: one that is up with exceptions is up.
func TestWhatBecameOfABackend(t *testing.T) {
	for _, row := range []struct {
		down               error
		up, impaired, full string
		says               string
	}{
		{nil, "1", "0", "0", "level=INFO msg=\"backend is up\""},
		{&health.ImpairedError{Reason: "the binlog"}, "1", "1", "0", "level=WARN msg=\"backend is up, but"},
		{&driver.DownError{Server: "mysql", Reason: "gone"}, "0", "0", "0", "level=WARN msg=\"backend is down\""},
		{&driver.DownError{Server: "mysql", Reason: "no room", Full: true}, "0", "0", "1", "backend is down"},
		{nil, "1", "0", "0", "backend is up"},
	} {
		var log bytes.Buffer
		a := &App{metrics: metrics.New("1", "app-1"), log: slog.New(slog.NewTextHandler(&log, nil))}
		a.backends = map[string]*health.Backend{"mysql": health.New("mysql", nil)}
		a.backendChanged("mysql", &health.ImpairedError{Reason: "before"})
		log.Reset()
		a.backendChanged("mysql", row.down)
		page := httptest.NewRecorder()
		a.metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		for name, want := range map[string]string{"up": row.up, "impaired": row.impaired, "full": row.full} {
			line := "stock_backend_" + name + `{backend="mysql"} ` + want
			if !strings.Contains(page.Body.String(), line) {
				t.Errorf("%v: no %s", row.down, line)
			}
		}
		if !strings.Contains(log.String(), row.says) || !strings.Contains(log.String(), "backend=mysql") {
			t.Errorf("%v: the log says %s", row.down, log.String())
		}
	}
}
