package app_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/orders/config"
)

// TestAlerts plays failures before a real Prometheus, which has the alerts with two seconds in place of each minute.
// Each raises its alerts, and no others.
func TestAlerts(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Skip(err)
	}
	alerts, err := os.ReadFile("../deploy/alerts.yml")
	if err != nil {
		t.Skip(err) // this service is deployed in another way
	}
	webhook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // so that the instance leaves none behind
		w.WriteHeader(http.StatusUnprocessableEntity)
	}))
	defer webhook.Close()
	do := func(t *testing.T, statement string) {
		t.Helper()
		if _, err := rows.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		change func(*config.Config)
		fail   func(*testing.T, *instance)
		want   []string
	}{
		{"nothing", nil, func(*testing.T, *instance) {}, nil},
		{"the database is down", nil, func(t *testing.T, _ *instance) {
			if err := server.Kill(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Run(); err != nil {
					t.Error(err)
				}
			})
		}, []string{"NoInstanceReady", "OrdersFailing"}},
		{"the sweeper stands still", nil, func(t *testing.T, i *instance) {
			i.stock("kept", 10)
			held := cart("kept")
			held["ttl_seconds"] = 1
			if status, answer := i.send("POST", "/v1/reservations", "kept", held); status != 201 {
				t.Fatal(status, answer)
			}
			tx, err := rows.Begin()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback() })
			if _, err := tx.Exec("SELECT * FROM stocks WHERE sku = 'kept' FOR UPDATE"); err != nil {
				t.Fatal(err)
			}
		}, []string{"ReservationsOverdue"}},
		{"answers are errors", nil, func(t *testing.T, _ *instance) {
			do(t, "RENAME TABLE cart_lines TO elsewhere")
			t.Cleanup(func() { do(t, "RENAME TABLE elsewhere TO cart_lines") })
		}, []string{"InternalError", "OrdersFailing"}},
		{"the outbox is refused", func(c *config.Config) {
			c.Outbox.Sink, c.Outbox.WebhookURL, c.Outbox.Private = "webhook", webhook.URL, true
			c.Outbox.WebhookSecrets = []string{"whsec_" + strings.Repeat("QUJD", 8)}
		}, func(*testing.T, *instance) {}, []string{"EventsBehind"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() { do(t, "DELETE FROM outbox") }) // when the last sale is over
			i := start(t, c.change)
			i.readiness(200)
			i.stock("sold", 1_000_000)
			t.Cleanup(i.sell("sold"))
			firing := prometheus(t, i, string(alerts))
			c.fail(t, i)
			eventually(t, fmt.Sprint("alerts ", c.want), func() bool { return slices.Equal(firing(), c.want) })
			for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(time.Second) {
				for _, alert := range firing() {
					if !slices.Contains(c.want, alert) {
						t.Fatal("it raises ", alert)
					}
				}
			}
		})
	}
}

// sell orders until stop is called.
func (i *instance) sell(sku string) (stop func()) {
	over := make(chan struct{})
	var selling sync.WaitGroup
	selling.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
				i.send("POST", "/v1/orders", fmt.Sprintf("%s-%s-%d", i.t.Name(), sku, n), cart(sku))
			}
		}
	})
	return func() { close(over); selling.Wait() }
}

// prometheus watches the instance until the test ends. firing returns the alerts that fire, sorted. OrdersSlow is left
// out: a busy computer is slow.
func prometheus(t *testing.T, i *instance, alerts string) (firing func() []string) {
	t.Helper()
	fast := regexp.MustCompile(`\b\d+m\b`).ReplaceAllStringFunc(alerts, func(text string) string {
		long, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(long / 30)
	})
	fast = strings.Replace(fast, "> 300", "> 10", 1)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	rules := write("alerts.yml", fast)
	settings := write("prometheus.yml", fmt.Sprintf(`global: {scrape_interval: 400ms, scrape_timeout: 400ms, `+
		`evaluation_interval: 400ms}
rule_files: [%s]
scrape_configs: [{job_name: orders, static_configs: [{targets: [%q]}]}]
`, rules, strings.TrimPrefix(i.operators, "http://")))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	cmd := exec.Command("prometheus", "--config.file="+settings, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=error")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it is about the signal
	})
	firing = func() (names []string) {
		_, text := get("http://" + address + "/api/v1/alerts")
		var reply struct {
			Data struct {
				Alerts []struct {
					Labels struct{ Alertname string }
					State  string
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &reply); err != nil {
			return []string{"no answer"}
		}
		for _, a := range reply.Data.Alerts {
			if a.State == "firing" && a.Labels.Alertname != "OrdersSlow" {
				names = append(names, a.Labels.Alertname)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	eventually(t, "Prometheus sees the instance", func() bool {
		status, text := get("http://" + address + "/api/v1/query?query=orders_ready")
		return status == 200 && strings.Contains(text, `"1"`)
	})
	return firing
}
