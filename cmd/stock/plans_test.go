package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// startRedisOnly starts two instances behind a proxy, with stock and locks on Redis: enough for plans of other tools.
func startRedisOnly(t *testing.T) *group {
	t.Helper()
	return serve(t, startServers(t, &plain, []server.Kind{server.Redis}), 2)
}

// A plan is a run of a common load tool, as loadtest/README.md describes it.
type plan struct {
	tool string
	ways []string                  // endpoints
	args func(url string) []string // url is where to post to
	// count finds the number of accepted replies in the output of the tool.
	count *regexp.Regexp
}

// race is the endpoint without a lock.
const race = "/deduct_stock"

func plans() []plan {
	wrk := regexp.MustCompile(`(?m)^accepted +(\d+)$`)
	return []plan{
		{
			tool: "wrk", ways: []string{"/deduct_stock_lock"}, count: wrk,
			args: func(u string) []string {
				return []string{"-t2", "-c8", "-d2s", "-s", "../../loadtest/wrk/deduct_stock.lua", u}
			},
		},
		{
			tool:  "hey",
			ways:  []string{"/deduct_stock_atomic", "/deduct_stock_lock", race},
			count: regexp.MustCompile(`(?m)^\s+\[200\]\s+(\d+) responses$`),
			args:  func(u string) []string { return []string{"-n", "240", "-c", "30", "-m", "POST", u} },
		},
		{
			tool: "curl", ways: []string{"/deduct_stock_atomic"}, count: wrk,
			args: func(u string) []string { return []string{"../../loadtest/curl/deduct_stock.sh", u, "60", "10"} },
		},
		{
			tool: "k6", ways: []string{"/deduct_stock_lock"}, count: regexp.MustCompile(`(?m)^\s*accepted\.+: (\d+) `),
			args: func(u string) []string {
				at, err := url.Parse(u)
				if err != nil {
					return nil
				}
				return []string{
					"run", "--quiet", "--no-usage-report", "-e", "URL=" + at.Scheme + "://" + at.Host,
					"-e", "ENDPOINT=" + at.Path, "-e", "SKU=" + at.Query().Get("sku"), "-e", "REQUESTS=240",
					"../../loadtest/k6/deduct_stock.js",
				}
			},
		},
	}
}

// Every plan runs from start to end with each tool that is installed: set the stock, load, judge. The number of
// accepted replies that the tool counts is the number of orders.
func TestPlansOfOtherTools(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	c := startRedisOnly(t)
	for _, p := range plans() {
		t.Run(p.tool, func(t *testing.T) {
			name := p.tool
			if p.tool == "curl" {
				name = "sh" // the plan is a script
			}
			if _, err := exec.LookPath(p.tool); err != nil {
				if os.Getenv("REQUIRE_BACKENDS") == "1" && p.tool != "k6" { // which no Debian package has
					t.Fatalf("REQUIRE_BACKENDS=1, but %v", err)
				}
				t.Skipf("its plan was not run: %v", err)
			}
			for _, way := range servertest.Some(1, p.ways) {
				sku := p.tool + strings.ReplaceAll(way, "/", "-")
				accepted, said := "", ""
				// wrk runs for a fixed time, which may be over before a busy computer has sold anything.
				for range 5 {
					if status, out := verdict(
						t, "--url", c.front.URL, "--sku", sku, "--set", "40", "--admin-token", demoToken,
					); status != 0 {
						t.Fatal(out)
					}
					if accepted, said = p.run(t, name, c.front.URL+way+"?sku="+sku); accepted != "0" {
						break
					}
				}
				p.judge(t, c.front.URL, sku, accepted, said, way != race)
			}
		})
	}
}

// run returns the number of accepted replies that the tool counted, and all that it printed.
func (p *plan) run(t *testing.T, name, url string) (accepted, said string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, p.args(url)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &stdout, &stderr)
	}
	found := p.count.FindStringSubmatch(stdout.String())
	if found == nil {
		t.Fatalf("no count of accepted replies in\n%s", &stdout)
	}
	return found[1], stdout.String()
}

// judge lets the verdict read what the tool printed.
func (p *plan) judge(t *testing.T, url, sku, accepted, said string, right bool) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "summary.txt")
	if err := os.WriteFile(path, []byte(said), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out := verdict(t, "--url", url, "--sku", sku, "--initial", "40", "--from", path, "--json", "-")
	var i loadtest.Inspection
	if err := json.Unmarshal([]byte(out), &i); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	counted, _ := strconv.ParseInt(accepted, 10, 64)
	if i.Accepted == nil || *i.Accepted != counted || counted > int64(i.Orders) || counted == 0 {
		t.Errorf("%s: the tool counted %d accepted, the store holds %d orders: %s", sku, counted, i.Orders, out)
	}
	// Without a lock the race may show or not. This test does not check that.
	broken := i.Lost != 0 || i.Oversold > 0 || i.Collisions > 0
	switch {
	case broken && status != exitVerdict || !broken && status != 0:
		t.Errorf("%s: exit status %d\n%s", sku, status, out)
	case right && broken:
		t.Errorf("%s\n%s", sku, out)
	}
}

// A call is one request of a file for REST clients, with the status that its title gives.
type call struct {
	title, method, url, body string
	header                   http.Header
	status                   int
}

// calls reads requests.http as an editor does, with host in place of its own.
func calls(t *testing.T, host string) []call {
	t.Helper()
	text, err := os.ReadFile("../../requests.http")
	if err != nil {
		t.Fatal(err)
	}
	title := regexp.MustCompile(`(\d{3})$`)
	var all []call
	for _, part := range strings.Split(string(text), "\n### ")[1:] {
		name, request, _ := strings.Cut(part, "\n")
		head, body, _ := strings.Cut(request, "\n\n")
		lines := strings.Split(strings.TrimSpace(head), "\n")
		method, target, ok := strings.Cut(lines[0], " ")
		status := title.FindString(name)
		if !ok || status == "" {
			t.Fatalf("%q has no request line, or its title no status", name)
		}
		c := call{title: name, method: method, body: strings.TrimSpace(body), header: make(http.Header)}
		c.url = strings.Replace(target, "{{host}}", host, 1)
		c.status, _ = strconv.Atoi(status)
		for _, line := range lines[1:] {
			key, value, _ := strings.Cut(line, ": ")
			c.header.Set(key, value)
		}
		all = append(all, c)
	}
	return all
}

// Every call of the file for REST clients is answered as its title says, in the order of the file, and again when it
// is repeated.
func TestFirstCalls(t *testing.T) {
	t.Parallel()
	c := startRedisOnly(t)
	first := calls(t, c.front.URL)
	if len(first) != 10 {
		t.Errorf("there are %d calls, want 10", len(first))
	}
	for range 2 {
		for _, call := range first {
			req, err := http.NewRequestWithContext(t.Context(), call.method, call.url, strings.NewReader(call.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = call.header
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != call.status || err != nil {
				t.Errorf("%s: answered %d, %v\n%s", call.title, resp.StatusCode, err, body)
			}
		}
	}
}
