package app_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"example.com/stock/orders/app"
	"example.com/stock/orders/config"
	"example.com/stock/orders/internal/mariadb"
)

var (
	server *mariadb.Server
	rows   *sql.DB
	dsn    string
)

func TestMain(m *testing.M) {
	if os.Getenv("SKIP_SERVERS") == "1" {
		fmt.Println("SKIP_SERVERS: nothing is tested here without MariaDB")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if server, dsn, err = mariadb.Start(); err != nil {
		fmt.Println("start MariaDB (SKIP_SERVERS=1 does without):", err)
		return 1
	}
	defer server.Stop()
	if rows, err = sql.Open("mysql", dsn); err != nil {
		fmt.Println(err)
		return 1
	}
	defer rows.Close()
	rows.SetMaxIdleConns(0) // none is left when leaks are looked for
	slog.SetDefault(slog.New(slog.DiscardHandler))
	return m.Run()
}

const (
	secret = "a secret for tests, of 32 bytes."
	bound  = 30 * time.Second // on patience
)

// An instance runs until its test ends, or until stop.
type instance struct {
	t                    *testing.T
	customers, operators string
	stop                 context.CancelFunc
	ended                chan error
}

func start(t *testing.T, change func(*config.Config)) *instance {
	t.Helper()
	leaks := goleak.IgnoreCurrent() // such as the connections of the test
	c, _, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	c.MySQL.DSN, c.MySQL.Migrate, c.Auth.Secret, c.Instance = dsn, true, secret, "test"
	c.HTTP.Address, c.HTTP.Operators, c.HTTP.Drain = "127.0.0.1:0", "127.0.0.1:0", 0
	if change != nil {
		change(c)
	}
	a, err := app.Open(t.Context(), c, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	i := &instance{t, "http://" + a.Customers().String(), "http://" + a.Operators().String(), stop, make(chan error, 1)}
	go func() {
		i.ended <- a.Run(ctx)
		close(i.ended)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-i.ended; err != nil {
			t.Errorf("the end: %v", err)
		}
		client.CloseIdleConnections()
		goleak.VerifyNone(t, leaks)
	})
	return i
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10}, Timeout: bound}

// get returns the status and the body of a page; 0: there was no answer.
func get(url string) (int, string) {
	r, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(text)
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(bound); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("in vain: " + what)
		}
	}
}

func (i *instance) readiness(status int) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("/readyz %d", status), func() bool {
		got, _ := get(i.operators + "/readyz")
		return got == status
	})
}

// send sends a request of a customer who may do all.
func (i *instance) send(method, path, key string, body any) (int, map[string]any) {
	i.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			i.t.Error(err)
		}
	}
	r, err := http.NewRequest(method, i.customers+path, bytes.NewReader(text))
	if err != nil {
		i.t.Error(err)
		return 0, nil
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"sub": "private-ann", "exp": time.Now().Add(time.Hour).Unix(), "scope": "stock:read stock:write",
		"x": strings.Repeat("x", 5900), // a long token, of almost 8 KiB
	}).SignedString([]byte(secret))
	if err != nil {
		i.t.Error(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	reply, err := client.Do(r)
	if err != nil {
		return 0, map[string]any{"error": err.Error()}
	}
	defer reply.Body.Close()
	var answer map[string]any
	if err := json.NewDecoder(reply.Body).Decode(&answer); err != nil {
		i.t.Errorf("%s %s: %v", method, path, err)
	}
	return reply.StatusCode, answer
}

func (i *instance) stock(sku string, quantity int) {
	i.t.Helper()
	if status, answer := i.send("PUT", "/v1/stock/"+sku, "k", map[string]any{"quantity": quantity}); status != 200 {
		i.t.Fatal(status, answer)
	}
}

func cart(sku string) map[string]any {
	return map[string]any{"lines": []any{map[string]any{"sku": sku, "quantity": 2}}}
}

func TestInstance(t *testing.T) {
	i := start(t, nil)
	i.readiness(200)
	i.stock("tea", 10)
	if status, answer := i.send("POST", "/v1/orders", "one", cart("tea")); status != 201 {
		t.Fatal(status, answer)
	}
	if status, _ := i.send("POST", "/v1/orders", "two", cart("milk")); status != 404 {
		t.Error(status)
	}
	held := cart("tea")
	held["ttl_seconds"] = 1
	if status, answer := i.send("POST", "/v1/reservations", "three", held); status != 201 {
		t.Fatal(status, answer)
	}
	eventually(t, "the reservation expires", func() bool {
		_, stock := i.send("GET", "/v1/stock/tea", "", nil)
		return stock["available"] == 8.0 && stock["reserved"] == 0.0
	})
	if _, err := rows.Exec("UPDATE idempotency_keys SET created_at = created_at - INTERVAL 25 HOUR"); err != nil {
		t.Fatal(err)
	}
	_, text := get(i.operators + "/metrics")
	for _, line := range []string{
		`orders_http_requests_total{operation="placeOrder",problem="",status="201"} 1`,
		`orders_http_requests_total{operation="placeOrder",problem="unknown_sku",status="404"} 1`,
		`orders_http_request_duration_seconds_count{operation="reserve"} 1`,
		`orders_units_total{kind="sell"} 2`, `orders_units_total{kind="expire"} 2`, `orders_units_total{kind="set"} 10`,
		`orders_ready 1`, `orders_reservations_overdue 0`, `orders_build_info{version="v1.2.3"} 1`,
		`go_sql_max_open_connections{db_name="orders"} 40`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("/metrics has no %s", line)
		}
	}
	if status, text := get(i.operators + "/version"); status != 200 || !strings.Contains(text, `"version":"v1.2.3"`) {
		t.Error(status, text)
	}
	for _, path := range []string{"/metrics", "/readyz", "/version"} {
		if status, _ := get(i.customers + path); status != 404 {
			t.Errorf("customers see %s: %d", path, status)
		}
	}
	next := start(t, nil) // which forgets old keys when it starts
	eventually(t, "old keys are forgotten", func() bool {
		var n int
		if err := rows.QueryRow("SELECT COUNT(*) FROM idempotency_keys").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	next.readiness(200)
}

// TestStop: it is not ready, but serves; then it finishes what it has begun; then it ends.
func TestStop(t *testing.T) {
	i := start(t, func(c *config.Config) { c.HTTP.Drain = time.Second })
	i.readiness(200)
	i.stock("slow", 10)
	tx, err := rows.Begin() // holds up the order
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec("SELECT * FROM stocks WHERE sku = 'slow' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		// On a busy computer it has waited too long for the row by then, and says so.
		status, answer := i.send("POST", "/v1/orders", "slow", cart("slow"))
		if status != 201 && answer["type"] != "/problems/busy" {
			t.Errorf("the order under way: %d %v", status, answer)
		}
	})
	eventually(t, "the order waits", func() bool {
		var n int
		const query = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'SELECT stocks.%'"
		err := rows.QueryRow(query).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	i.stop()
	i.readiness(503)
	if r, err := client.Get(i.customers + "/v1/stock/slow"); err != nil || r.StatusCode != 200 || !r.Close {
		t.Errorf("while it drains: %+v, %v; want a reply that ends the connection", r, err)
	} else {
		_ = r.Body.Close()
	}
	eventually(t, "the port is closed", func() bool {
		status, _ := i.send("GET", "/v1/stock/slow", "", nil)
		return status == 0
	})
	if status, _ := get(i.operators + "/livez"); status != 200 {
		t.Errorf("/livez while a request is under way: %d", status)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	if err := <-i.ended; err != nil {
		t.Error(err)
	}
	if status, _ := get(i.operators + "/livez"); status != 0 {
		t.Errorf("/livez after the end: %d", status)
	}
}

// TestAway: without MySQL it starts, says so, and recovers by itself.
func TestAway(t *testing.T) {
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	i := start(t, nil)
	i.readiness(503)
	if _, text := get(i.operators + "/readyz"); !strings.Contains(text, "the database does not answer") {
		t.Error(text)
	}
	if status, text := get(i.operators + "/livez"); status != 200 {
		t.Error(status, text)
	}
	status, answer := i.send("POST", "/v1/orders", "one", cart("tea"))
	if status != 503 || answer["type"] != "/problems/database_down" {
		t.Error(status, answer)
	}
	_, text := get(i.operators + "/metrics")
	if !strings.Contains(text, "orders_ready 0\n") || strings.Contains(text, "overdue") {
		t.Error("orders_ready is not 0, or what is not known is told")
	}
	if err := server.Run(); err != nil {
		t.Fatal(err)
	}
	i.readiness(200)
	i.stock("back", 1)
}

// TestAddressInUse: the error names the setting.
func TestAddressInUse(t *testing.T) {
	i := start(t, nil)
	c, _, err := config.Load("")
	if err != nil {
		t.Fatal(err)
	}
	c.MySQL.DSN, c.Auth.Secret, c.HTTP.Address = dsn, secret, "127.0.0.1:0"
	c.HTTP.Operators = strings.TrimPrefix(i.operators, "http://")
	if _, err := app.Open(t.Context(), c, ""); err == nil || !strings.Contains(err.Error(), "http.operators") {
		t.Error(err)
	}
}

// TestEvents: what the outbox has is sent, and is counted until then.
func TestEvents(t *testing.T) {
	var mu sync.Mutex
	var got []string
	open := false
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if !open {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		got = append(got, r.Header.Get("Webhook-Id"))
	}))
	defer receiver.Close()
	i := start(t, func(c *config.Config) {
		c.Outbox.Sink, c.Outbox.WebhookURL, c.Outbox.Private = "webhook", receiver.URL, true
		c.Outbox.WebhookSecrets = []string{"whsec_dGhlIHNlY3JldCBvZiBhIHdlYmhvb2ssIGZvciB0ZXN0cw=="}
	})
	i.readiness(200)
	i.stock("event", 10)
	if status, answer := i.send("POST", "/v1/orders", "event", cart("event")); status != 201 {
		t.Fatal(status, answer)
	}
	_, text := get(i.operators + "/metrics")
	if !strings.Contains(text, "orders_outbox_waiting 2\n") || !strings.Contains(text, "orders_outbox_parked 0\n") ||
		strings.Contains(text, "orders_outbox_late_seconds 0\n") {
		t.Error("the metrics do not show what waits")
	}
	mu.Lock()
	open = true
	mu.Unlock()
	eventually(t, "the events arrive", func() bool {
		_, text := get(i.operators + "/metrics")
		return strings.Contains(text, "orders_outbox_waiting 0\n")
	})
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(got) != "[event~1 event~2]" {
		t.Error(got)
	}
	i.stop()
	if err := <-i.ended; err != nil {
		t.Error(err)
	}
}

// TestTraces: a request and its statements are in one trace, and no value of a customer is.
func TestTraces(t *testing.T) {
	var mu sync.Mutex
	var sent []byte
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, body...)
	}))
	defer collector.Close()
	i := start(t, func(c *config.Config) { c.Traces.Endpoint = collector.URL })
	i.readiness(200)
	if status, _ := i.send("POST", "/v1/orders", "private-key", cart("private-sku")); status != 404 {
		t.Fatal(status)
	}
	i.stop()
	if err := <-i.ended; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, part := range []string{"POST /v1/orders", "FOR UPDATE", "v1.2.3"} {
		if !bytes.Contains(sent, []byte(part)) {
			t.Errorf("no span has %s", part)
		}
	}
	if bytes.Contains(sent, []byte("private-")) {
		t.Error("a span has a value of the customer")
	}
}

// TestMonitoring: the alerts do what their tests say, and they and the dashboard only use metrics that exist.
func TestMonitoring(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"alerts.yml", "dashboard.json", "runbook.md"} {
		text, err := os.ReadFile("../deploy/" + name)
		if os.IsNotExist(err) {
			t.Skip("there is no folder deploy")
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	i := start(t, nil)
	i.readiness(200)
	i.stock("seen", 1)
	_, text := get(i.operators + "/metrics")
	for name, file := range files {
		for _, metric := range regexp.MustCompile(`\b(orders|go_sql|process)_[a-z_]+`).FindAllString(file, -1) {
			if !strings.Contains(text, "\n"+metric+" ") && !strings.Contains(text, "\n"+metric+"{") {
				t.Errorf("%s has %s, which /metrics has not", name, metric)
			}
		}
	}
	for _, m := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(files["alerts.yml"], -1) {
		if !strings.Contains(files["runbook.md"], "\n## "+m[1]+"\n") ||
			!strings.Contains(files["alerts.yml"], `"runbook.md#`+strings.ToLower(m[1])+`"`) {
			t.Errorf("the runbook has no page for %s, or the alert does not name it", m[1])
		}
	}
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	check := exec.Command(promtool, "test", "rules", "alerts_test.yml")
	check.Dir = "../deploy"
	if text, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}
