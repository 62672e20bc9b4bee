package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo/repotest"
)

// An instance is an App in this process.
type instance struct {
	app    *App
	url    string
	admin  string // of the operators' listener
	cancel context.CancelFunc
	ended  chan error
	client *http.Client
	log    *journal

	arrived  *arrivals     // at the listener for clients
	patience time.Duration // how long a probe may take; 0: as ever
}

// A journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// backends returns the flags of an instance that uses only the named servers. It has more patience with them than it
// has by default: they may be slow because the computer is busy.
func backends(more ...string) []string {
	return append([]string{
		"--redis-url=", "--zookeeper-hosts=", "--mysql-dsn=", "--drain=0s", "--redis-timeout=10s", "--work=10s",
		"--zookeeper-session-timeout=1m",
	}, more...)
}

// begin starts an instance, which is patient with its servers. The end of the test stops it.
func begin(t *testing.T, args ...string) *instance {
	t.Helper()
	return beginWithin(t, 10*time.Second, args...)
}

// beginWithin is begin for an instance whose probes may take that long.
func beginWithin(t *testing.T, patience time.Duration, args ...string) *instance {
	t.Helper()
	cfg := mustConfigure(t, append(slices.Clone(args),
		"--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--instance=app-1", "--admin-token="+token)...)
	i := &instance{
		ended: make(chan error, 1), log: &journal{}, patience: patience,
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		t.Fatal(err)
	}
	i.run(t, cfg, slog.New(slog.NewTextHandler(i.log, &slog.HandlerOptions{Level: level})))
	return i
}

// run runs the instance until the end of the test.
func (i *instance) run(t *testing.T, cfg Config, log *slog.Logger) {
	t.Helper()
	var err error
	if i.app, err = New(cfg, "test", log); err != nil {
		t.Fatal(err)
	}
	for _, b := range i.app.backends {
		b.Patience = i.patience
	}
	for _, p := range i.app.permits {
		p.Patience = i.patience
	}
	i.arrived = &arrivals{Listener: i.app.listener}
	i.app.listener = i.arrived
	i.url, i.admin = "http://"+i.app.Addr().String(), "http://"+i.app.AdminAddr().String()
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	go func() { i.ended <- i.app.Run(ctx) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the instance:\n%s", i.log)
		}
		cancel()
		<-i.ended
	})
}

// end stops the instance, which must return without an error.
func (i *instance) end(t *testing.T) {
	t.Helper()
	i.cancel()
	select {
	case err := <-i.ended:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		i.ended <- err // for the clean-up
	case <-time.After(time.Minute):
		t.Fatal("it does not stop")
	}
}

// A reply is what came of a request: 0 is none.
type reply struct {
	status int
	body   string
	err    error
}

func (r reply) field(name string) any {
	var fields map[string]any
	_ = json.Unmarshal([]byte(r.body), &fields)
	return fields[name]
}

func (i *instance) ask(method, path string) reply { return i.send(method, i.url+path) }

func (i *instance) send(method, url string) reply {
	req, err := http.NewRequest(method, url, http.NoBody)
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := i.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(body), err}
}

// later sends a request in the background.
func (i *instance) later(method, path string) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- i.ask(method, path) }()
	return answer
}

// ready waits until every named backend is up.
func (i *instance) ready(t *testing.T, names ...string) {
	t.Helper()
	servertest.Eventually(t, 20*time.Second, "the backends are up", func() (bool, string) {
		r := i.ask(http.MethodGet, "/readyz")
		var told struct {
			Backends map[string]struct{ Up bool }
		}
		_ = json.Unmarshal([]byte(r.body), &told)
		for _, name := range names {
			if !told.Backends[name].Up {
				return false, r.body
			}
		}
		return r.status == http.StatusOK, r.body
	})
}

// insist asks again while the instance says that a server is down, for a minute at most: on a busy computer a probe may
// be late twice. Nothing was done then, and a client would ask again.
func (i *instance) insist(method, path string) (r reply) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if r = i.ask(method, path); name(r) != "backend_down" {
			break
		}
	}
	return r
}

func (i *instance) must(t *testing.T, method, path string, status int) reply {
	t.Helper()
	r := i.ask(method, path)
	if status != http.StatusServiceUnavailable && name(r) == "backend_down" {
		r = i.insist(method, path)
	}
	if r.err != nil || r.status != status {
		t.Errorf("%s %s: %d %s %v, want %d", method, path, r.status, r.body, r.err, status)
	}
	return r
}

// migrated returns the DSN of a database on the shared MariaDB, for this test alone, with the schema.
func migrated(t *testing.T) string {
	t.Helper()
	return servers.FilledMariaDB(t, func(t testing.TB, dsn string) { repotest.Migrated(t, dsn) })
}

// all the shared servers, as flags of an instance with a database of its own.
func everything(t *testing.T) []string {
	return backends(
		"--redis-url=redis://"+servers.Redis(t).Addr, "--zookeeper-hosts="+servers.ZooKeeper(t),
		"--mysql-dsn="+migrated(t),
	)
}

// own returns a SKU that no other test has: Redis is shared.
func own(t *testing.T) string {
	return "sku-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
}

// The whole life of an instance: every strategy sells on every store, and when Run has returned, nothing of the
// instance is left in this process.
func TestRunLeavesNothing(t *testing.T) {
	args := append(everything(t), "--seed-sku="+own(t))
	before := goleak.IgnoreCurrent() // the connection that fills databases outlives the test
	i := begin(t, args...)
	i.ready(t, "redis", "zookeeper", "mysql")
	var catalogue struct {
		Strategies []struct {
			Name, Endpoint string
			Stores         []string
			Available      bool
		}
	}
	if err := json.Unmarshal([]byte(i.must(t, http.MethodGet, "/v1/strategies", 200).body), &catalogue); err != nil {
		t.Fatal(err)
	}
	for _, s := range catalogue.Strategies {
		if !s.Available {
			t.Logf("%s is not available here", s.Name)
			continue
		}
		for _, store := range s.Stores {
			i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"?store="+store+"&quantity=100", 200)
			i.must(t, http.MethodPost, s.Endpoint+"?store="+store, 200) // of the seeded SKU: it is the default
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/version", "/openapi.json", "/v1/stock/" + own(t)} {
		i.must(t, http.MethodGet, path, 200)
	}
	for _, path := range []string{"/livez", "/metrics", "/v1/locks/redis-watchdog/" + own(t)} {
		if r := i.send(http.MethodGet, i.admin+path); r.status != http.StatusOK {
			t.Errorf("for operators: %s: %d %s %v", path, r.status, r.body, r.err)
		}
	}
	i.end(t)
	for _, url := range []string{i.url, i.admin} {
		if r := i.send(http.MethodGet, url+"/livez"); r.err == nil {
			t.Errorf("it still answers: %d", r.status)
		}
	}
	if err := goleak.Find(before, servertest.IgnoreServers()); err != nil {
		t.Error(err)
	}
	if log := i.log.String(); !strings.Contains(log, "msg=stopped") || strings.Contains(log, "level=ERROR") {
		t.Errorf("its log:\n%s", log)
	}
}

// The error of a taken port names the setting that chooses another.
func TestNewOnATakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	fails := func(args ...string) error {
		_, err := New(mustConfigure(t, backends(args...)...), "test", slog.New(slog.DiscardHandler))
		return err
	}
	says(t, fails("--addr", taken), "listen", "--addr", "STOCK_ADDR", taken, "address already in use")
	says(t, fails("--addr", "127.0.0.1:0", "--admin-addr", taken),
		"listen for operators", "--admin-addr", "STOCK_ADMIN_ADDR", `"" for none`, taken, "address already in use")
}

// A listener that breaks ends Run with the reason, and with everything closed.
func TestRunWithoutAListener(t *testing.T) {
	args := append(everything(t), "--addr=127.0.0.1:0", "--admin-addr=")
	before := goleak.IgnoreCurrent() // the connection that fills databases outlives the test
	cfg := mustConfigure(t, args...)
	a, err := New(cfg, "test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_ = a.listener.Close()
	if err := a.Run(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Run: %v, want the listener's error", err)
	}
	if err := goleak.Find(before, servertest.IgnoreServers()); err != nil {
		t.Error(err)
	}
}

// Strategies that need a server without configuration are unavailable, with the reason; all others work.
func TestAbsentBackends(t *testing.T) {
	const redis, mysql, zookeeper = "set redis.url (STOCK_REDIS_URL)", "set mysql.dsn (STOCK_MYSQL_DSN)",
		"set zookeeper.hosts (STOCK_ZOOKEEPER_HOSTS)"
	for _, row := range []struct {
		name  string
		with  func(t *testing.T) string // a flag
		ready int
		store string
		says  map[string]string // by endpoint: the setting that is missing, or "": it sells
	}{
		{
			"redis only", func(t *testing.T) string { return "--redis-url=redis://" + servers.Redis(t).Addr },
			200, "redis",
			map[string]string{
				"/deduct_stock_redisson": "", "/deduct_stock_sync": "", "/deduct_stock_zk": zookeeper,
				"/deduct_stock_pessimistic": mysql,
			},
		},
		{
			"mysql only", func(t *testing.T) string { return "--mysql-dsn=" + migrated(t) }, 200, "mysql",
			map[string]string{
				"/deduct_stock_pessimistic": "", "/deduct_stock_sync": "", "/deduct_stock_redisson": redis,
				"/deduct_stock_zk": zookeeper,
			},
		},
		{
			"nothing", func(*testing.T) string { return "--zookeeper-hosts=" }, 503, "",
			map[string]string{"/deduct_stock": redis, "/deduct_stock_zk": zookeeper},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			i := begin(t, backends(row.with(t), "--seed-sku="+own(t))...)
			i.becomes(t, row.ready)
			listed := i.must(t, http.MethodGet, "/v1/strategies", 200).body
			for endpoint, missing := range row.says {
				if missing == "" {
					i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"?quantity=9&store="+row.store, 200)
					i.must(t, http.MethodPost, endpoint+"?store="+row.store, 200)
					continue
				}
				r := i.must(t, http.MethodPost, endpoint, 503)
				if name(r) != "backend_down" || !strings.Contains(r.body, missing) {
					t.Errorf("POST %s: %s, want backend_down because of %q", endpoint, r.body, missing)
				}
				if !strings.Contains(listed, missing) {
					t.Errorf("/v1/strategies does not say %q: %s", missing, listed)
				}
			}
			i.must(t, http.MethodGet, "/livez", 200)
			if up := i.metric(`stock_backend_up{backend="zookeeper"}`); up != "missing" {
				t.Errorf("zookeeper has a series: %s: somebody would be alerted", up)
			}
			i.end(t)
		})
	}
}

// While another instance migrates, or hangs in it, this one lives, sells what it can, and stops when it is told to.
func TestServeWhileAnotherMigrates(t *testing.T) {
	t.Parallel()
	dsn := servers.MariaDB(t)
	conn, err := openRoot(t, dsn).Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got int
	lock := "SELECT GET_LOCK(CONCAT('stock.migrate.', MD5(DATABASE())), 0)"
	if err := conn.QueryRowContext(t.Context(), lock).Scan(&got); err != nil || got != 1 {
		t.Fatalf("%d, %v", got, err)
	}
	i := begin(t, backends("--redis-url=redis://"+servers.Redis(t).Addr, "--mysql-dsn="+dsn, "--seed-sku="+own(t))...)
	alive := i.later(http.MethodGet, "/livez")
	select {
	case r := <-alive:
		if r.status != 200 {
			t.Errorf("/livez: %d %s %v", r.status, r.body, r.err)
		}
	case <-time.After(time.Minute):
		t.Fatal("/livez does not answer while the schema is not there yet")
	}
	// Redis does not wait for MySQL.
	servertest.Eventually(t, 20*time.Second, "the stock is set", func() (bool, string) {
		r := i.ask(http.MethodPut, "/v1/stock/"+own(t)+"?quantity=100&store=redis")
		return r.status == http.StatusOK, r.body
	})
	i.ready(t, "redis")
	i.must(t, http.MethodPost, "/deduct_stock_redisson", 200)
	i.must(t, http.MethodPost, "/deduct_stock_pessimistic", 503)
	i.cancel()
	select {
	case err := <-i.ended:
		i.ended <- err
	case <-time.After(time.Minute):
		t.Error("it waits for the other before it stops")
	}
}
