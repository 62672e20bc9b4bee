package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// problem is what nginx says when no instance does.
type problem struct {
	Type      string `json:"type"`
	Status    int    `json:"status"`
	Title     string `json:"title"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"`
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
	if p.Type == "" || p.Title == "" || p.Detail == "" || p.RequestID == "" {
		t.Errorf("a member of the problem is empty: %s", r.body)
	}
	if p.Status != r.StatusCode {
		t.Errorf("the body says status %d, the reply has %d", p.Status, r.StatusCode)
	}
	return p
}

func TestTurnsGoRound(t *testing.T) {
	t.Parallel()
	all, addrs := threeInstances(t, answer)
	g := newGateway(t, addrs)
	last, seen := "", map[string]int{}
	for range 9 {
		r := g.do("POST", "/deduct_stock", "")
		who := r.Header.Get("X-Instance")
		if who == last {
			t.Errorf("%s answered twice in a row", who)
		}
		last = who
		seen[who]++
		if addr := r.Header.Get("X-Upstream-Addr"); addr != "" {
			t.Errorf("the address %s inside the network is shown to the public", addr)
		}
	}
	// A second in which an instance accepts no connection, on a busy computer, is the turn of another.
	if n := hits(all); n != 9 || len(seen) != 3 {
		t.Errorf("9 requests arrived %d times, and were answered by %v", n, seen)
	}
}

// everyMethod is what a client may send, and what is none of HTTP's.
var everyMethod = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "LOCK", "PROPPATCH", "FROB"}

// readOnly says that a request of that method may be sent to a second instance after a first one may have seen it.
func readOnly(method string) bool { return method == "GET" || method == "HEAD" }

// The rule that keeps the promise of every strategy: what changes something and may have been carried out by one
// instance is never sent to another. Instances die in each of the ways in which a request can have been sent.
func TestSentRequestIsNotSentAgain(t *testing.T) {
	t.Parallel()
	deaths := map[string]http.HandlerFunc{
		"hangs up": drop, "resets the connection": reset,
		"dies while it answers": half,
	}
	for name, die := range deaths {
		for _, method := range everyMethod {
			for _, body := range []string{"", `{"quantity":100}`} {
				if body != "" && readOnly(method) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %d bytes", name, method, len(body)), func(t *testing.T) {
					t.Parallel()
					all, addrs := threeInstances(t, die)
					r := newGateway(t, addrs).do(method, "/v1/stock/a", body)
					n := hits(all)
					switch {
					case !readOnly(method) && n != 1:
						t.Errorf("%s arrived %d times, want 1", method, n)
					case readOnly(method) && n != 3:
						t.Errorf("%s arrived %d times, want 3", method, n)
					}
					if r.StatusCode != 502 {
						t.Errorf("status %d, want 502", r.StatusCode)
					}
					if method != "HEAD" {
						p := problemOf(t, r)
						if p.Type != "/problems/bad_gateway" || !p.Sent || p.Instance != "/v1/stock/a" {
							t.Errorf("got %+v, want bad_gateway, sent, about the path", p)
						}
					}
					if got := r.Header.Get("Retry-After"); got != "" {
						t.Errorf("Retry-After %q after a request that may have been carried out", got)
					}
				})
			}
		}
	}
}

// The same on a connection that is kept open: nginx treats a failure there in its own way.
func TestSentRequestIsNotSentAgainOnKeptConnection(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			all, addrs := threeInstances(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == method {
					drop(w, r)
				}
			})
			g := newGateway(t, addrs, "keepalive_timeout 500ms;", "keepalive_timeout 30s;")
			for range 6 {
				g.do("PATCH", "/livez", "")
				g.do("GET", "/livez", "")
			}
			before := hits(all)
			if r := g.do(method, "/deduct_stock", ""); r.StatusCode != 502 {
				t.Errorf("status %d, want 502", r.StatusCode)
			}
			if n := hits(all) - before; n != 1 {
				t.Errorf("it arrived %d times, want 1", n)
			}
		})
	}
}

// An instance gets the request as the client sent it, whichever way it takes through nginx.
func TestEveryMethodArrivesAsItself(t *testing.T) {
	t.Parallel()
	var got, forged, length string
	in := newInstance(t, "one", func(_ http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.RequestURI + " " + r.Host + " " + r.Header.Get("X-Forwarded-For")
		forged, length = r.Header.Get("X-Stock-Method"), fmt.Sprint(r.ContentLength)
	})
	g := newGateway(t, []string{in.addr})
	for _, method := range everyMethod {
		const path = "/v1/stock/a%2Fb?x=%20%2F"
		r := g.do(method, path, "12345", "X-Forwarded-For", "10.1.2.3", "X-Stock-Method", "DELETE")
		if want := method + " " + path + " gateway 10.1.2.3, unix:"; got != want {
			t.Errorf("the instance got %q, want %q", got, want)
		}
		from := r.Header.Get("X-Instance")
		if r.StatusCode != 200 || from != "one" || forged != "" || length != "5" {
			t.Errorf("%s: %d from %q, X-Stock-Method %q, %s bytes", method, r.StatusCode, from, forged, length)
		}
	}
	if n := in.hits.Load(); n != int64(len(everyMethod)) {
		t.Errorf("%d requests arrived %d times", len(everyMethod), n)
	}
}

func TestSilentInstanceIs504AndNotAskedTwice(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			over := make(chan struct{})
			all, addrs := threeInstances(t, func(http.ResponseWriter, *http.Request) { <-over })
			t.Cleanup(func() { close(over) })
			first := "proxy_read_timeout 20s;"
			if method == "POST" { // goes straight to an instance
				first = ""
			}
			edits := []string{"proxy_read_timeout 75s;", "proxy_read_timeout 1s;", "proxy_read_timeout 85s;", first}
			r := newGateway(t, addrs, edits...).do(method, "/deduct_stock", "")
			if p := problemOf(t, r); r.StatusCode != 504 || p.Type != "/problems/gateway_timeout" || !p.Sent {
				t.Errorf("got %d %+v, want 504 gateway_timeout, sent", r.StatusCode, p)
			}
			eventually(t, "the request arrives", func() bool { return hits(all) > 0 })
			if n := hits(all); n != 1 {
				t.Errorf("it arrived %d times, want 1", n)
			}
		})
	}
}

// What could not be sent goes on, whatever it is.
func TestRefusedConnectionMovesOn(t *testing.T) {
	t.Parallel()
	for _, method := range everyMethod {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			in := newInstance(t, "alive", answer)
			g := newGateway(t, []string{closedPort(t), in.addr, closedPort(t)})
			for range 12 {
				if r := g.do(method, "/deduct_stock", "{}"); r.StatusCode != 200 ||
					r.Header.Get("X-Instance") != "alive" {
					t.Fatalf("got %d: %s, want 200 from the one that is alive", r.StatusCode, r.body)
				}
			}
			if n := in.hits.Load(); n != 12 {
				t.Errorf("12 requests arrived %d times", n)
			}
		})
	}
}

func TestNoInstanceIs502AndSaysNothingWasSent(t *testing.T) {
	t.Parallel()
	g := newGateway(t, []string{closedPort(t), closedPort(t)})
	for _, method := range []string{"POST", "PUT", "DELETE", "GET", "POST"} {
		// At first each is refused, then both are put aside: two ways to have nobody.
		r := g.do(method, "/deduct_stock", "")
		if p := problemOf(t, r); r.StatusCode != 502 || p.Sent || !strings.Contains(p.Detail, "can be sent again") {
			t.Errorf("%s: got %d %+v, want 502 that says nothing was sent", method, r.StatusCode, p)
		}
		if got := r.Header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After %q, want 1", got)
		}
	}
}

func TestAffinityKeepsASKUAtOneInstance(t *testing.T) {
	t.Parallel()
	all, addrs := threeInstances(t, answer)
	g := newGateway(t, addrs, affinity, strings.TrimPrefix(affinity, "# "))
	at := func(method, path string) string { return g.do(method, path, "").Header.Get("X-Instance") }
	used := map[string]bool{}
	for n := range 40 {
		sku := fmt.Sprintf("sku-%d", n)
		first := at("POST", "/deduct_stock_zk?sku="+sku)
		used[first] = true
		for _, way := range [][2]string{
			{"POST", "/deduct_stock?quantity=2&sku=" + sku + "&store=mysql"},
			{"POST", "/v1/stock/" + sku + "/deduct"},
			{"GET", "/v1/stock/" + sku},
			{"PUT", "/v1/stock/" + sku + "?x=1"}, // PUT passes both servers
		} {
			if got := at(way[0], way[1]); got != first {
				t.Errorf("%s %s went to %s, and a sale of the SKU to %s", way[0], way[1], got, first)
			}
		}
	}
	if len(used) != len(all) {
		t.Errorf("40 SKUs are sold by %v, want all three instances", used)
	}
	if got, want := at("POST", "/deduct_stock"), at("POST", "/deduct_stock?sku=stock"); got != want {
		t.Errorf("a sale of the default SKU went to %s, with its name to %s", got, want)
	}
	round := map[string]int{}
	for range 9 {
		round[at("POST", "/v1/orders?sku=a")]++
	}
	if round["instance-1"] != 3 || round["instance-2"] != 3 || round["instance-3"] != 3 {
		t.Errorf("9 requests that name no SKU went to %v, want 3 each", round)
	}
}

func TestAffinityLeavesADeadInstance(t *testing.T) {
	t.Parallel()
	all, addrs := threeInstances(t, answer)
	dead := closedPort(t)
	g := newGateway(t, append(addrs[:2:2], dead), affinity, strings.TrimPrefix(affinity, "# "))
	for n := range 40 { // some belong to the instance that is away
		path := fmt.Sprintf("/deduct_stock?sku=sku-%d", n)
		first := g.do("POST", path, "")
		if again := g.do("POST", path, ""); first.StatusCode != 200 || again.StatusCode != 200 ||
			first.Header.Get("X-Instance") != again.Header.Get("X-Instance") {
			t.Errorf("%s: %d by %s, then %d by %s", path, first.StatusCode, first.Header.Get("X-Instance"),
				again.StatusCode, again.Header.Get("X-Instance"))
		}
	}
	if a, b := all[0].hits.Load(), all[1].hits.Load(); a+b != 80 || a == 0 || b == 0 {
		t.Errorf("80 requests arrived %d and %d times, want all of them at two instances", a, b)
	}
}

// With the limits on, an address that asks too often gets a problem document and is told when to ask again.
func TestAnAddressIsLimited(t *testing.T) {
	t.Parallel()
	all, addrs := threeInstances(t, answer)
	limit := "# limit_req zone=requests burst=100 nodelay;"
	g := newGateway(t, addrs, limit, strings.TrimPrefix(limit, "# "), "rate=50r/s", "rate=1r/m")
	got := map[int]int{}
	for range 110 {
		r := g.do("POST", "/deduct_stock", "")
		if got[r.StatusCode]++; r.StatusCode != http.StatusTooManyRequests || got[r.StatusCode] > 1 {
			continue
		}
		if p := problemOf(t, r); p.Type != "/problems/rate_limited" || p.Sent || r.Header.Get("Retry-After") == "" {
			t.Errorf("%+v, Retry-After %q", p, r.Header.Get("Retry-After"))
		}
	}
	// One more for each minute that the test takes.
	if got[200] < 101 || got[429] == 0 || got[200]+got[429] != 110 || hits(all) != int64(got[200]) {
		t.Errorf("of 110 requests: %v, and %d arrived; want 101 with 200, and the others with 429", got, hits(all))
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	all, addrs := threeInstances(t, answer)
	// A slow computer must not look like a fault.
	g := newGateway(t, addrs, "keepalive_timeout 500ms;", "keepalive_timeout 30s;")
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
	t.Parallel()
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

// A client that sends a byte now and then holds its connection for as long as an instance lets it, and no longer: nginx
// passes the body on as it comes, gives the instance's answer, and ends the connection. One instance gets it.
func TestABodyThatTrickles(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"POST", "PUT"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			var hits atomic.Int64
			instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				hits.Add(1)
				_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
				if _, err := io.ReadAll(r.Body); err == nil {
					t.Error("the body came to its end")
				}
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusRequestTimeout)
			}))
			t.Cleanup(instance.Close)
			addr := instance.Listener.Addr().String()
			conn, err := net.Dial("unix", newGateway(t, []string{addr, addr}).socket())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			const bytes = 120 // a minute
			const header = "%s /v1/stock/a HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
			if _, err := fmt.Fprintf(conn, header, method, bytes); err != nil {
				t.Fatal(err)
			}
			answer := make(chan string, 1)
			go func() { // it ends with the connection
				text, _ := io.ReadAll(conn)
				answer <- string(text)
			}()
			sent, said := 0, ""
			for ; sent < bytes && said == ""; sent++ {
				_, _ = conn.Write([]byte("x"))
				select {
				case said = <-answer:
				case <-time.After(500 * time.Millisecond):
				}
			}
			if sent == bytes || !strings.HasPrefix(said, "HTTP/1.1 408 ") {
				t.Errorf("after %d of %d bytes: %q, want the instance's 408 and the end", sent, bytes, said)
			}
			if n := hits.Load(); n != 1 {
				t.Errorf("it arrived %d times, want 1", n)
			}
		})
	}
}

// A request has one line, with the instance that answered, whichever way it took through nginx.
func TestAccessLogIsJSON(t *testing.T) {
	t.Parallel()
	in := newInstance(t, "one", answer)
	for _, method := range []string{"POST", "DELETE"} {
		t.Run(method, func(t *testing.T) {
			g := newGateway(t, []string{in.addr})
			g.do(method, `/deduct_stock?sku="a`, "", "X-Request-Id", "id-1")
			g.do(method, "/v1/locks/a/b", "", "X-Request-Id", "id-2")
			var lines []map[string]string
			eventually(t, "two lines in the access log", func() bool {
				text, _ := os.ReadFile(filepath.Join(g.dir, "access.log"))
				lines = nil
				for one := range strings.Lines(string(text)) {
					var line map[string]string
					if json.Unmarshal([]byte(one), &line) == nil {
						lines = append(lines, line)
					}
				}
				return len(lines) > 1
			})
			line, refused := lines[0], lines[1]
			if line["request_id"] != "id-1" { // the second server may be the later one
				line, refused = refused, line
			}
			for key, want := range map[string]string{
				"request_id": "id-1", "upstream": in.addr, "instance": "one", "method": method,
				"status": "200", "upstream_status": "200", "uri": `/deduct_stock?sku="a`,
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
			if refused["status"] != "404" || refused["method"] != method || refused["upstream"] != "" {
				t.Errorf("what nginx refused is logged as %v", refused)
			}
		})
	}
}
