package deploy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// raw sends bytes as they are and reads the reply; ok is false if nginx closed the connection without one.
func (g *gateway) raw(request string) (r reply, ok bool) {
	g.t.Helper()
	conn, err := net.Dial("unix", g.socket())
	if err != nil {
		g.t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	sent := make(chan struct{})
	go func() { // nginx may answer, and stop reading, before it has everything
		defer close(sent)
		_, _ = io.WriteString(conn, request)
	}()
	defer func() { <-sent }()
	reader := bufio.NewReader(conn)
	start, err := reader.Peek(5)
	if err != nil {
		return reply{}, false
	}
	if string(start) != "HTTP/" { // the reply of HTTP/0.9 is a body
		body, _ := io.ReadAll(reader)
		return reply{&http.Response{}, string(body)}, true
	}
	resp, err := http.ReadResponse(reader, nil)
	if err != nil {
		g.t.Fatalf("the reply is no HTTP: %v", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatalf("reading the reply: %v", err)
	}
	return reply{resp, string(body)}, true
}

// What nginx refuses is answered by a problem document of the published schema, with the right status, and no
// instance hears of it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const host = "Host: gateway\r\n"
	post := func(path, headers, body string) string {
		return "POST " + path + " HTTP/1.1\r\n" + host + headers + "\r\n" + body
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\n" + host + "\r\n" }
	smuggled := "0\r\n\r\nDELETE /v1/stock/a HTTP/1.1\r\n" + host + "\r\n"
	rows := []struct {
		name, request string
		status        int
		kind          string
		instance      string // the member; "": a path that cannot be said
	}{
		{"a broken escape that would break the JSON", get(`/a"b\c%2f%zz`), 400, "invalid", ""},
		{"up and out", get("/../../etc/passwd"), 400, "invalid", ""},
		{"a path of 9 kB", get("/" + strings.Repeat("a", 9<<10)), 414, "invalid", ""},
		{"CONNECT", "CONNECT example.com:443 HTTP/1.1\r\n" + host + "\r\n", 400, "invalid", ""},
		{"TRACE", "TRACE / HTTP/1.1\r\n" + host + "\r\n", 405, "method_not_allowed", "/"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "invalid", ""},
		{"HTTP/9", "GET / HTTP/9.1\r\n" + host + "\r\n", 505, "invalid", ""},
		{"HTTP/0.9", "GET /v1/strategies\r\n", 400, "invalid", "/v1/strategies"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, "invalid", "/"},
		{
			"a header of 9 kB",
			"GET / HTTP/1.1\r\n" + host + "X-A: " + strings.Repeat("a", 9<<10) + "\r\n\r\n",
			431, "invalid", "/",
		},
		{"two lengths", post("/x", "Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400, "invalid", "/x"},
		{
			"a length and chunks",
			post("/x", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", smuggled),
			400, "invalid", "/x",
		},
		{
			"an encoding nobody knows",
			post("/x", "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n", smuggled),
			501, "invalid", "/x",
		},
		{
			"chunks in HTTP/1.0",
			"POST /x HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + smuggled,
			400, "invalid", "/x",
		},
		{
			"chunks that are too many",
			post("/x", "Transfer-Encoding: chunked\r\n", "18000\r\n"+strings.Repeat("a", 0x18000)),
			413, "too_large", "/x",
		},
		{"metrics", get("/metrics"), 404, "not_found", "/metrics"},
		{"the problem itself", get("/nginx_problem"), 404, "not_found", "/nginx_problem"},
	}
	in := newInstance(t, "one", answer)
	g := newGateway(t, []string{in.addr})
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			g := &gateway{t: t, dir: g.dir}
			before := in.hits.Load()
			r, ok := g.raw(row.request)
			if !ok {
				t.Fatal("closed without an answer")
			}
			if r.Header == nil { // HTTP/0.9
				header := http.Header{"Content-Type": {"application/problem+json"}}
				r.Response = &http.Response{StatusCode: row.status, Header: header}
			}
			p := problemOf(t, r)
			if r.StatusCode != row.status || p.Type != "/problems/"+row.kind || p.Instance != row.instance || p.Sent {
				t.Errorf("got %d %s, want %d %s about %q", r.StatusCode, r.body, row.status, row.kind, row.instance)
			}
			if n := in.hits.Load() - before; n != 0 {
				t.Errorf("the instance got %d requests", n)
			}
		})
	}
}

// What is not for the public stays so however it is written; what only looks like it goes through.
func TestWhatIsNotForThePublic(t *testing.T) {
	t.Parallel()
	in := newInstance(t, "one", answer)
	g := newGateway(t, []string{in.addr})
	for _, method := range []string{"GET", "DELETE"} {
		for _, path := range []string{
			"/metrics", "/metrics/", "/metrics?x", "/%6detrics", "//metrics", "/./metrics", "/x/../metrics",
			"/Metrics", "http://gateway/metrics",
			"/v1/locks", "/v1/locks/zk/a", "/v1//locks/zk/a", "/v1/%6Cocks/zk/a", "/v1%2flocks/zk/a",
			"/v1/locks%2fzk%2fa", "/V1/LOCKS/zk/a",
			"/v1/stock/../locks/zk/a", "/v1/locks/zk/..%2f..%2flivez", "/v1/locks/zk/..%2F..%2F..%2Flivez",
			"/v1/locks/zk/%2e%2e%2f%2E%2E%2flivez",
			"/v1/locks/zk/../../livez", "/v1/lab/pauses", "/v1/lab/pauses/..%2f..%2f..%2flivez", "/v1/stock/.",
			"/v1/stock/..",
		} {
			before := in.hits.Load()
			r, _ := g.raw(method + " " + path + " HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n")
			if r.StatusCode != 404 {
				t.Errorf("%s %s: %d, want 404", method, path, r.StatusCode)
			}
			if n := in.hits.Load() - before; n != 0 {
				t.Errorf("%s %s reached the instance", method, path)
			}
		}
	}
	for _, path := range []string{
		"/v1/stock/locks", "/v1/stock/metrics", "/v1/stock/a..b", "/v1/stock/.a", "/v1/stock/a?x=/../",
		"/v1/labels", "/metricsx", "/v1/stock/a%2Fb",
		"/deduct_stock?sku=..%2f",
	} {
		if r := g.do("GET", path, ""); r.StatusCode != 200 {
			t.Errorf("%s: %d, want it to go through", path, r.StatusCode)
		}
	}
}

// What some clients send and a strict reader might refuse reaches the instance in a form that Go takes.
func TestOddButGood(t *testing.T) {
	t.Parallel()
	var host string
	in := newInstance(t, "one", func(_ http.ResponseWriter, r *http.Request) { host = r.Host })
	g := newGateway(t, []string{in.addr})
	const chunked = "/x HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
	for _, row := range []struct{ name, request, host string }{
		{"HTTP/1.0 without a host", "GET /livez HTTP/1.0\r\n\r\n", "stock"},
		{"a host and a port", "GET /livez HTTP/1.1\r\nHost: shop.example:8080\r\n\r\n", "shop.example:8080"},
		{"an IPv6 host", "GET /livez HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "[::1]:8080"},
		{"a host that Go does not take", "GET /livez HTTP/1.1\r\nHost: a<b\r\n\r\n", "stock"},
		{"an absolute address", "GET http://shop.example/livez HTTP/1.1\r\nHost: shop.example\r\n\r\n", "shop.example"},
		{"bare line feeds", "GET /livez HTTP/1.1\nHost: gateway\n\n", "gateway"},
		{"chunks", "POST " + chunked, "gateway"},
		{"chunks to PUT", "PUT " + chunked, "gateway"},
	} {
		r, ok := g.raw(row.request)
		if !ok || r.StatusCode != 200 || host != row.host {
			t.Errorf("%s: %v, host %q, want 200 and %q", row.name, r.Response, host, row.host)
		}
	}
}

// A reader of Chinese gets what nginx says by itself in Chinese. The type, which programs read, is the same.
func TestProblemsSpeakTheReadersLanguage(t *testing.T) {
	t.Parallel()
	down := newGateway(t, []string{closedPort(t)})
	lost := newGateway(t, []string{newInstance(t, "dies", drop).addr})
	for _, row := range []struct {
		name       string
		g          *gateway
		path, body string
	}{
		{"nobody there", down, "/deduct_stock", ""},
		{"no reply", lost, "/deduct_stock", ""},
		{"a body of 100 KiB", down, "/deduct_stock", strings.Repeat("x", 100<<10)},
		{"not for the public", down, "/metrics", ""},
	} {
		for lang, chinese := range map[string]bool{"en": false, "zh": true} {
			r := row.g.do("POST", row.path, row.body, "Accept-Language", lang)
			p := problemOf(t, r)
			for _, said := range []string{p.Title, p.Detail} {
				if regexp.MustCompile(`\p{Han}`).MatchString(said) != chinese {
					t.Errorf("%s, %s: %s", row.name, lang, said)
				}
			}
			if r.Header.Get("Content-Language") != lang || r.Header.Get("Vary") != "Accept-Language" {
				t.Errorf("%s, %s: %v", row.name, lang, r.Header)
			}
		}
	}
	statuses := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^ +(en|zh):(\d+) +"`).FindAllStringSubmatch(shipped, -1) {
		statuses[m[2]] += m[1]
	}
	for status, langs := range statuses {
		if langs != "enzh" {
			t.Errorf("the title of %s is in %s", status, langs)
		}
	}
}

// nginx reads Accept-Language as the instances do, except that it goes by the order of the list, not by q.
func TestAcceptLanguage(t *testing.T) {
	t.Parallel()
	g := newGateway(t, []string{closedPort(t)})
	for header, want := range map[string]string{
		"": "en", "zh": "zh", "ZH-hans-cn": "zh", "en-US,en;q=0.9,zh-CN;q=0.8": "en", "*": "en",
		" zh ; q=0.7 , en ; q=0.5": "zh", "fr, de;q=0.5": "en", "*, zh;q=0.5": "en", "fr;q=0, zh": "zh",
		"en;q=0.000,zh": "zh", "zh-CN;q=0.0": "en", "zha, zh": "zh", ";;q=1,,zh;q=0.2": "zh",
		strings.Repeat("fr;q=0,", 1000) + "zh": "zh", // and soon
	} {
		r := g.do("GET", "/metrics", "", "Accept-Language", header)
		if got := r.Header.Get("Content-Language"); got != want {
			t.Errorf("%.40q: %s, want %s", header, got, want)
		}
	}
}

// The members of what nginx writes are those of the schema that the service publishes.
func TestProblemIsAsPublished(t *testing.T) {
	t.Parallel()
	g := newGateway(t, []string{closedPort(t)})
	var said map[string]any
	if err := json.Unmarshal([]byte(g.do("POST", "/deduct_stock", "").body), &said); err != nil {
		t.Fatal(err)
	}
	var published struct {
		Components struct {
			Schemas struct {
				Problem struct {
					Properties map[string]struct{ Type string }
					Required   []string
				} `yaml:"Problem"`
			}
		}
	}
	if err := yaml.Unmarshal(read(t, "../handler/openapi.yaml"), &published); err != nil {
		t.Fatal(err)
	}
	schema := published.Components.Schemas.Problem
	types := map[string]string{"string": "string", "float64": "integer", "bool": "boolean"}
	for name, value := range said {
		if want, got := schema.Properties[name].Type, types[fmt.Sprintf("%T", value)]; want != got {
			t.Errorf("%s is of type %q, the schema says %q", name, got, want)
		}
	}
	for _, name := range schema.Required {
		if _, ok := said[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

// Every type that nginx may name is explained by the service.
func TestEveryTypeIsExplained(t *testing.T) {
	t.Parallel()
	_, rest, ok := strings.Cut(shipped, "map $status $stock_problem {")
	if !ok {
		t.Fatal("nginx.conf has no map of problem types")
	}
	block, _, _ := strings.Cut(rest, "}")
	source := read(t, "../handler/table.go")
	for line := range strings.Lines(block) {
		words := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ";"))
		if len(words) == 2 && !bytes.Contains(source, []byte(strconv.Quote(words[1]))) {
			t.Errorf("%s is not in handler/table.go", words[1])
		}
	}
	if !slices.Contains(strings.Fields(block), "bad_gateway;") {
		t.Error("the map was not read")
	}
}
