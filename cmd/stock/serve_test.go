package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/stack/stacktest"
)

// An instance is serve() in this process.
type instance struct {
	url    string
	admin  string // of the operators' listener
	cancel context.CancelFunc
	ended  chan error
	client *http.Client
	log    *journal
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

// backends are the flags of an instance that uses no server but those that are named.
func backends(more ...string) []string {
	return append([]string{"--redis-addrs=", "--zookeeper-hosts=", "--mysql-dsn=", "--drain=0s"}, more...)
}

// begin starts an instance, and stops it with the test at the latest.
func begin(t *testing.T, args ...string) *instance {
	t.Helper()
	bare(t)
	cfg := mustConfigure(t, append(args, "--instance=app-1", "--admin-token="+demoToken, "--log-format=text")...)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	admin, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{
		url: "http://" + listener.Addr().String(), admin: "http://" + admin.Addr().String(), ended: make(chan error, 1), log: &journal{},
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	}
	ctx, cancel := context.WithCancel(context.Background())
	i.cancel = cancel
	go func() { i.ended <- serve(ctx, cfg, listener, admin, slog.New(slog.NewTextHandler(i.log, nil))) }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the instance:\n%s", i.log)
		}
		cancel()
		<-i.ended
	})
	return i
}

// end stops the instance and returns what serve returned.
func (i *instance) end(t *testing.T) {
	t.Helper()
	i.cancel()
	select {
	case err := <-i.ended:
		if err != nil {
			t.Errorf("serve: %v", err)
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
	req.Header.Set("Authorization", "Bearer "+demoToken)
	resp, err := i.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, string(body), err}
}

// later asks in the background.
func (i *instance) later(method, path string) <-chan reply {
	answer := make(chan reply, 1)
	go func() { answer <- i.ask(method, path) }()
	return answer
}

// ready waits until every backend that was named is up.
func (i *instance) ready(t *testing.T, names ...string) {
	t.Helper()
	eventually(t, 20*time.Second, "the backends are up", func() (bool, string) {
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

func (i *instance) must(t *testing.T, method, path string, status int) reply {
	t.Helper()
	r := i.ask(method, path)
	if r.err != nil || r.status != status {
		t.Errorf("%s %s: %d %s %v, want %d", method, path, r.status, r.body, r.err, status)
	}
	return r
}

// all the shared servers, as flags of an instance with a database of its own.
func everything(t *testing.T) []string {
	return backends("--redis-addrs="+servers.Redis(t).Addr, "--zookeeper-hosts="+servers.ZooKeeper(t), "--mysql-dsn="+servers.MariaDB(t))
}

// own is a SKU that no other test has: Redis is shared.
func own(t *testing.T) string {
	return "sku-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
}

// A whole life: every strategy sells on every store, and when serve has returned nothing of it is left in this process.
func TestServeLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	i := begin(t, append(everything(t), "--seed-sku="+own(t))...)
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
	if err := goleak.Find(before, stacktest.IgnoreServers()); err != nil {
		t.Error(err)
	}
	if log := i.log.String(); !strings.Contains(log, "msg=stopped") || strings.Contains(log, "level=ERROR") {
		t.Errorf("its log:\n%s", log)
	}
}

// The port is taken: say so, and which knob turns it.
func TestServeOnATakenPort(t *testing.T) {
	bare(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, _, err = run(t.Context(), append([]string{"serve", "--addr", l.Addr().String()}, backends()...)...)
	says(t, err, "listen", "--addr", "STOCK_ADDR", l.Addr().String(), "address already in use")
	_, _, err = run(t.Context(), append([]string{"serve", "--addr", "127.0.0.1:0", "--admin-addr", l.Addr().String()}, backends()...)...)
	says(t, err, "listen for operators", "--admin-addr", "STOCK_ADMIN_ADDR", `"" for none`, l.Addr().String(), "address already in use")
}

// What is for operators is not found on the listener for customers, nor on any if there is none for operators; and who
// asks costs the locks' server nothing.
func TestOperatorsHaveAListenerOfTheirOwn(t *testing.T) {
	addr := servers.Redis(t).Addr
	i := begin(t, backends("--redis-addrs="+addr, "--lab", "--seed-sku="+own(t))...)
	i.ready(t, "redis")
	for _, path := range []string{"/metrics", "/v1/locks/segmented/" + own(t), "/v1/locks/redis-watchdog/" + own(t), "/v1/lab/pauses"} {
		i.must(t, http.MethodGet, path, http.StatusNotFound)
		if r := i.send(http.MethodGet, i.admin+path); r.status != http.StatusOK {
			t.Errorf("for operators: %s: %d %s %v", path, r.status, r.body, r.err)
		}
	}
	i.must(t, http.MethodDelete, "/v1/locks/redis-watchdog/"+own(t), http.StatusNotFound)
	i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"?quantity=1", http.StatusOK) // a load run sets stock, through nginx
}

// A listener that breaks ends serve with the reason, and with everything closed.
func TestServeWithoutAListener(t *testing.T) {
	before := goleak.IgnoreCurrent()
	bare(t)
	cfg := mustConfigure(t, everything(t)...)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	err = serve(t.Context(), cfg, l, nil, slog.New(slog.DiscardHandler))
	if !errors.Is(err, net.ErrClosed) {
		t.Errorf("serve: %v, want the listener's error", err)
	}
	if err := goleak.Find(before, stacktest.IgnoreServers()); err != nil {
		t.Error(err)
	}
}
