package stack_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

func TestInstances(t *testing.T) {
	t.Setenv("STOCK_LOG_LEVEL", "developer's own")
	s := start(t, stack.Options{
		Options: server.Options{Want: []server.Kind{server.Redis}},
		Env:     []string{"STOCK_DRAIN=0s", "STOCK_INSTANCE=not-this"},
	})
	servers, err := s.Serve(t.Context(), 3, "STOCK_WHO=me")
	if err != nil {
		t.Fatal(err)
	}
	for i, app := range servers {
		name := "app-" + strconv.Itoa(i+1)
		for key, want := range map[string]string{
			"STOCK_INSTANCE": name, "STOCK_ADDR": app.Addr, "STOCK_REDIS_URL": "redis://" + s.Server("redis").Addr,
			"STOCK_MYSQL_DSN": "", "STOCK_DRAIN": "0s", "STOCK_WHO": "me", "STOCK_LOG_LEVEL": "",
		} {
			if got := body(t, app.URL+"/env?key="+key); got != want {
				t.Errorf("%s: %s=%q, want %q", name, key, got, want)
			}
		}
		if app.Name != name || s.Server(name) != app {
			t.Errorf("instance %d is %s", i+1, app.Name)
		}
	}
	if err := servers[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := servers[1].Restart(t.Context()); err != nil {
		t.Error(err)
	}
	if got := body(t, servers[1].URL+"/env?key=STOCK_INSTANCE"); got != "app-2" {
		t.Errorf("after Restart: %q", got)
	}
}

// served starts one instance with env beside a Redis, and returns what was said of it when it was ready.
func served(t *testing.T, env string) (said string) {
	t.Helper()
	tell := func(e server.Event) {
		if e.What == "ready" {
			said = e.Detail
		}
	}
	s := start(t, stack.Options{Options: server.Options{Want: []server.Kind{server.Redis}, Progress: tell}})
	if _, err := s.Serve(t.Context(), 1, env); err != nil {
		t.Fatal(err)
	}
	return said
}

func TestAnInstanceThatIsOnlyAliveWillDo(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"FAKE_UNREADY=no zookeeper here", "FAKE_DOWN=no redis yet"} {
		t.Run(env, func(t *testing.T) {
			t.Parallel()
			ready := served(t, env)
			_, why, _ := strings.Cut(env, "=")
			if !strings.Contains(ready, "alive but not ready") || !strings.Contains(ready, why) {
				t.Errorf("progress said %q, want %q in it", ready, why)
			}
		})
	}
}

// An instance that has had no answer yet, because it migrates a database, say, is given more time.
func TestAnInstanceThatIsAskingIsWaitedFor(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	if ready := served(t, "FAKE_SLOW=7s"); strings.Contains(ready, "alive but not ready") {
		t.Errorf("progress said %q", ready)
	}
}

func TestOneCrashingInstanceLeavesNone(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Options: server.Options{Parent: t.TempDir()}})
	_, err := s.Serve(t.Context(), 3, "FAKE_CRASH=app-2")
	if err == nil || !strings.Contains(err.Error(), "cannot work under these conditions") {
		t.Errorf("Serve: %v, want the instance's last words", err)
	}
	for _, p := range servertest.Processes(s.Dir) {
		t.Errorf("left running: %s", p)
	}
}

// Nginx and its stand-in keep the same rules.
func TestFront(t *testing.T) {
	t.Parallel()
	testFront(t, false)
}

func TestFrontStandIn(t *testing.T) {
	t.Setenv("PATH", "")
	testFront(t, true)
}

func testFront(t *testing.T, standIn bool) {
	t.Helper()
	s := start(t, stack.Options{})
	apps, err := s.Serve(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Front(t.Context()); err != nil {
		t.Fatal(err)
	}
	front := s.Server("nginx")
	if !standIn {
		front = need(t, s, "nginx")
	}

	// On a busy computer an instance may accept no connection for a second. Its turn is then another's.
	within(t, "20 requests go to the instances in turn", func() bool {
		last, alternate := "", true
		for range 20 {
			who := post(t, front.URL+"/sell", "").Header.Get("X-Instance")
			alternate = alternate && who != "" && who != last
			last = who
		}
		return alternate
	})
	for _, c := range []struct{ sent, want string }{{"order-66", "order-66"}, {"", ""}, {`bad" id`, ""}} {
		got := post(t, front.URL+"/sell", c.sent).Header.Values("X-Request-Id")
		if len(got) != 1 || got[0] == "" || c.want != "" && got[0] != c.want || c.want == "" && got[0] == c.sent {
			t.Errorf("X-Request-Id %q sent, %q came back, want %q (empty: a fresh one)", c.sent, got, c.want)
		}
	}

	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "FROB"} {
		// Twice: on a new connection to the instance, and on one that is kept.
		for range 2 {
			before := count(t, apps)
			var res *http.Response
			var problem map[string]any
			within(t, method+" /die reaches an instance", func() bool {
				res = do(t, method, front.URL+"/die", "order-67")
				problem = problemOf(t, res)
				return problem["sent"] != false
			})
			if res.StatusCode != http.StatusBadGateway || problem["sent"] != true || problem["instance"] != "/die" {
				t.Errorf("%s, dropped connection: %d %v, want 502 and sent", method, res.StatusCode, problem)
			}
			if after := count(t, apps); after != before+1 {
				t.Errorf("a %s that got no reply was sent %d times, want once", method, after-before)
			}
			back := map[string]bool{} // two failures put an instance aside for a second
			within(t, "both instances have work again", func() bool {
				back[post(t, front.URL+"/sell", "").Header.Get("X-Instance")] = true
				return back["app-1"] && back["app-2"]
			})
		}
	}
	for _, path := range []string{
		"/metrics", "/v1/locks/zk/a", "/v1/locks/zk/..%2f..%2flivez", "/v1/lab/pauses", "/v1/%6cab/pauses",
	} {
		res := do(t, "GET", front.URL+path, "")
		if res.StatusCode != http.StatusNotFound || problemOf(t, res)["type"] != "/problems/not_found" {
			t.Errorf("%s: %d, want nginx's own 404", path, res.StatusCode)
		}
	}
	if res := post(t, front.URL+"/sell", ""); res.Header.Get("X-Upstream-Addr") != "" {
		t.Error("the address of an instance is shown to the public")
	}

	if err := apps[0].Kill(); err != nil {
		t.Fatal(err)
	}
	within(t, "with app-1 killed, app-2 answers four in a row", func() bool { // a kept connection may tell its end late
		for range 4 {
			res := post(t, front.URL+"/sell", "")
			if res.StatusCode != http.StatusOK || res.Header.Get("X-Instance") != "app-2" {
				return false
			}
		}
		return true
	})
	if err := apps[1].Kill(); err != nil {
		t.Fatal(err)
	}
	within(t, "502 with nothing sent", func() bool {
		res := post(t, front.URL+"/sell", "order-68")
		p := problemOf(t, res)
		return res.StatusCode == http.StatusBadGateway && p["sent"] == false && p["request_id"] == "order-68" &&
			p["type"] == "/problems/bad_gateway" && res.Header.Get("X-Request-Id") == "order-68" &&
			res.Header.Get("Retry-After") == "1"
	})
	if err := apps[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, "app-1 serves again", func() bool { return post(t, front.URL+"/sell", "").StatusCode == http.StatusOK })

	addr := front.Addr
	if err := front.Kill(); err != nil {
		t.Fatal(err)
	}
	if listens(addr) {
		t.Error("a killed front listens")
	}
	if err := front.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if res := post(t, front.URL+"/sell", ""); res.StatusCode != http.StatusOK {
		t.Errorf("after Restart: %d", res.StatusCode)
	}
}

func do(t *testing.T, method, url, id string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	// What a careful client would send, and what net/http takes as leave to repeat.
	req.Header.Set("Idempotency-Key", "1")
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	res.Body = io.NopCloser(strings.NewReader(string(text)))
	return res
}

func post(t *testing.T, url, id string) *http.Response {
	t.Helper()
	return do(t, http.MethodPost, url, id)
}

func body(t *testing.T, url string) string {
	t.Helper()
	text, _ := io.ReadAll(do(t, http.MethodGet, url, "").Body) // from memory
	return string(text)
}

func problemOf(t *testing.T, res *http.Response) map[string]any {
	t.Helper()
	problem := map[string]any{}
	if res.Header.Get("Content-Type") != "application/problem+json" {
		return problem
	}
	if err := json.NewDecoder(res.Body).Decode(&problem); err != nil {
		t.Error(err)
	}
	return problem
}

func count(t *testing.T, apps []*server.Server) (sum int) {
	t.Helper()
	for _, app := range apps {
		n, err := strconv.Atoi(body(t, app.URL+"/count"))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}
