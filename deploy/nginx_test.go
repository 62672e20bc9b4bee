package deploy

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// problem is what nginx says when no instance does.
type problem struct {
	Type      string `json:"type"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	RequestID string `json:"request_id"`
	Sent      bool   `json:"sent"`
}

func problemOf(t *testing.T, r reply) (p problem) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q, want application/problem+json", got)
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		t.Fatalf("the body is no JSON: %v: %s", err, r.body)
	}
	if p.Status != r.StatusCode {
		t.Errorf("the body says status %d, the reply has %d", p.Status, r.StatusCode)
	}
	return p
}

func TestTurnsGoRound(t *testing.T) {
	all, addrs := threeInstances(t, answer)
	g := newGateway(t, addrs)
	seen := map[string]int{}
	for range 9 {
		r := g.do("POST", "/deduct_stock", "")
		seen[r.Header.Get("X-Instance")+" "+r.Header.Get("X-Upstream-Addr")]++
	}
	for i, name := range []string{"instance-1", "instance-2", "instance-3"} {
		if n := seen[name+" "+all[i].addr]; n != 3 {
			t.Errorf("%s answered %d of 9 requests, want 3 (all: %v)", name, n, seen)
		}
	}
}

// The rule that keeps the promise of every strategy: a POST that an instance may have carried out is never sent to another.
func TestSentPostIsNotSentAgain(t *testing.T) {
	for _, c := range []struct {
		sentence string
		method   string
		edits    []string
		want     int64
	}{
		{"a POST that was sent is not passed on", "POST", nil, 1},
		{"a GET is passed on to each", "GET", nil, 3},
		{
			"with non_idempotent a POST arrives three times (the control: the test can see it)", "POST",
			[]string{"proxy_next_upstream error timeout;", "proxy_next_upstream error timeout non_idempotent;"},
			3,
		},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			all, addrs := threeInstances(t, drop)
			r := newGateway(t, addrs, c.edits...).do(c.method, "/deduct_stock_zk", "")
			if n := hits(all); n != c.want {
				t.Errorf("%s arrived %d times, want %d", c.method, n, c.want)
			}
			if p := problemOf(t, r); r.StatusCode != 502 || p.Type != "/problems/bad_gateway" || !p.Sent || p.RequestID == "" {
				t.Errorf("got %d %+v, want 502 bad_gateway, sent, with the request id", r.StatusCode, p)
			}
			if got := r.Header.Get("Retry-After"); got != "" {
				t.Errorf("Retry-After %q after a request that may have been carried out", got)
			}
		})
	}
}

// The same on a connection that is kept open: nginx treats a failure there in its own way.
func TestSentPostIsNotSentAgainOnKeptConnection(t *testing.T) {
	all, addrs := threeInstances(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			drop(w, r)
		}
	})
	g := newGateway(t, addrs)
	for range 6 {
		g.do("GET", "/livez", "")
	}
	before := hits(all)
	if r := g.do("POST", "/deduct_stock", ""); r.StatusCode != 502 {
		t.Errorf("status %d, want 502", r.StatusCode)
	}
	if n := hits(all) - before; n != 1 {
		t.Errorf("the POST arrived %d times, want 1", n)
	}
}

func TestSilentInstanceIs504AndNotAskedTwice(t *testing.T) {
	over := make(chan struct{})
	all, addrs := threeInstances(t, func(http.ResponseWriter, *http.Request) { <-over })
	t.Cleanup(func() { close(over) })
	r := newGateway(t, addrs, "proxy_read_timeout 75s;", "proxy_read_timeout 1s;").do("POST", "/deduct_stock", "")
	if p := problemOf(t, r); r.StatusCode != 504 || p.Type != "/problems/gateway_timeout" || !p.Sent {
		t.Errorf("got %d %+v, want 504 gateway_timeout, sent", r.StatusCode, p)
	}
	eventually(t, "the POST arrives", func() bool { return hits(all) > 0 })
	if n := hits(all); n != 1 {
		t.Errorf("the POST arrived %d times, want 1", n)
	}
}

func TestRefusedConnectionMovesOn(t *testing.T) {
	in := newInstance(t, "alive", answer)
	g := newGateway(t, []string{closedPort(t), in.addr, closedPort(t)})
	for range 12 {
		if r := g.do("POST", "/deduct_stock", ""); r.StatusCode != 200 || r.Header.Get("X-Instance") != "alive" {
			t.Fatalf("got %d: %s, want 200 from the one that is alive", r.StatusCode, r.body)
		}
	}
	if n := in.hits.Load(); n != 12 {
		t.Errorf("12 requests arrived %d times", n)
	}
}

func TestNoInstanceIs502AndSaysNothingWasSent(t *testing.T) {
	g := newGateway(t, []string{closedPort(t), closedPort(t)})
	for range 4 { // at first each is refused, then both are put aside: two ways to have nobody
		r := g.do("POST", "/deduct_stock", "")
		if p := problemOf(t, r); r.StatusCode != 502 || p.Sent || !strings.Contains(p.Detail, "can be sent again") {
			t.Errorf("got %d %+v, want 502 that says nothing was sent", r.StatusCode, p)
		}
		if got := r.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After %q, want 1", got)
		}
	}
}

func TestInstanceThatComesBackHasWorkAgain(t *testing.T) {
	other := newInstance(t, "other", answer)
	addr := closedPort(t)
	g := newGateway(t, []string{addr, other.addr})
	for range 6 {
		g.do("POST", "/deduct_stock", "")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skipf("somebody took the port meanwhile: %v", err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Instance", "back")
	}))
	_ = srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	eventually(t, "an answer of the instance that is back", func() bool {
		return g.do("POST", "/deduct_stock", "").Header.Get("X-Instance") == "back"
	})
}

func TestRequestID(t *testing.T) {
	var got string
	in := newInstance(t, "one", func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("X-Request-Id") })
	g := newGateway(t, []string{in.addr})
	for _, c := range []struct {
		sentence, sent string
		kept           bool
	}{
		{"a client's id is kept", "order-42_a.b:c", true},
		{"64 characters are kept", strings.Repeat("x", 64), true},
		{"65 are not", strings.Repeat("x", 65), false},
		{"none is made up", "", false},
		{"one that would break the JSON is replaced", `a","sent":false,"b":"`, false},
		{"one with a blank is replaced", "a b", false},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			r := g.do("POST", "/deduct_stock", "", "X-Request-Id", c.sent)
			echoed := r.Header.Values("X-Request-Id")
			if len(echoed) != 1 || echoed[0] != got || got == "" {
				t.Fatalf("the instance got %q, the client %q: want one and the same", got, echoed)
			}
			if (got == c.sent) != c.kept {
				t.Errorf("sent %q, got %q; kept should be %v", c.sent, got, c.kept)
			}
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	all, addrs := threeInstances(t, answer)
	g := newGateway(t, addrs)
	for range 30 {
		g.do("POST", "/deduct_stock", "")
	}
	for _, in := range all {
		// One client connection is served by one worker, which needs one connection to each instance.
		if n := in.conns.Load(); n != 1 || in.hits.Load() != 10 {
			t.Errorf("%d requests used %d connections, want 10 on 1", in.hits.Load(), n)
		}
	}
}

func TestLargeBody(t *testing.T) {
	in := newInstance(t, "one", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(413) })
	g := newGateway(t, []string{in.addr})
	if r := g.do("POST", "/deduct_stock", strings.Repeat("x", 64<<10+1)); r.Header.Get("X-Instance") != "one" {
		t.Errorf("64 KiB + 1: answered by nginx (%d), want the instance's own refusal", r.StatusCode)
	}
	r := g.do("POST", "/deduct_stock", strings.Repeat("x", 100<<10))
	if p := problemOf(t, r); r.StatusCode != 413 || p.Type != "/problems/too_large" || p.Sent {
		t.Errorf("100 KiB: got %d %+v, want nginx's 413 too_large", r.StatusCode, p)
	}
	if n := in.hits.Load(); n != 1 {
		t.Errorf("the instance saw %d requests, want 1", n)
	}
}

func TestAccessLogIsJSON(t *testing.T) {
	in := newInstance(t, "one", answer)
	g := newGateway(t, []string{in.addr})
	g.do("POST", `/deduct_stock?sku="a`, "", "X-Request-Id", "id-1")
	var line map[string]string
	eventually(t, "a line in the access log", func() bool {
		text, _ := os.ReadFile(filepath.Join(g.dir, "access.log"))
		return len(text) > 0 && json.Unmarshal(text, &line) == nil
	})
	for key, want := range map[string]string{
		"request_id": "id-1", "upstream": in.addr, "instance": "one", "status": "200", "upstream_status": "200", "method": "POST",
		"uri": `/deduct_stock?sku="a`,
	} {
		if line[key] != want {
			t.Errorf("%s is %q, want %q", key, line[key], want)
		}
	}
	for _, key := range []string{"time", "request_time", "connect_time", "header_time", "response_time"} {
		if line[key] == "" {
			t.Errorf("%s is missing", key)
		}
	}
}
