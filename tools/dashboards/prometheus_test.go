package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/panels"
	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

// rare are the expressions that a healthy installation answers with 0, of a series that does not exist yet.
var rare = regexp.MustCompile(`outcome_unknown|status=~"5\.\."`)

// A real Prometheus that scrapes real instances under load has values for every expression of every panel, with every
// label that a legend shows. stock watch shows the same installation, and evaluates the same expressions to the same
// values without Prometheus.
func TestEveryPanel(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	for _, name := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("REQUIRE_BACKENDS") == "1" {
				t.Fatalf("REQUIRE_BACKENDS=1, but %v", err)
			}
			t.Skip(name + " is not installed (Debian package prometheus)")
		}
	}
	program, instances := installation(t)
	var addrs []string
	for _, s := range instances {
		addrs = append(addrs, strings.TrimPrefix(s.Admin, "http://"))
	}
	rules, err := filepath.Abs(filepath.Join(root, "deploy/prometheus/stock.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	p := startPrometheus(t, t.TempDir(), fmt.Sprintf(`global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
- job_name: stock
  static_configs: [{targets: ["%s"]}]
`, rules, strings.Join(addrs, `", "`)))
	for _, e := range expressions() {
		hasValues(t, p, e)
	}
	t.Run("watch", func(t *testing.T) { watched(t, program, p.URL, addrs) })
	t.Run("without Prometheus", func(t *testing.T) { agree(t, instances) })
}

func hasValues(t *testing.T, p panels.Prometheus, e panels.Expr) {
	t.Helper()
	text := e.PromQL("20s")
	stacktest.Eventually(t, time.Minute, text, func() (bool, string) {
		samples, err := p.Query(t.Context(), text, time.Time{})
		if err != nil {
			return false, err.Error()
		}
		numbers := slices.DeleteFunc(slices.Clone(samples), func(s panels.Sample) bool { return math.IsNaN(s.Value) })
		for _, s := range numbers {
			for _, name := range e.Names() {
				if s.Labels[name] == "" || s.Labels[name] == "-" && !rare.MatchString(text) {
					return false, fmt.Sprintf("no label %s in %v", name, s)
				}
			}
			if len(s.Labels) != len(e.Names()) {
				return false, fmt.Sprintf("other labels than %q in %v", e.Names(), s)
			}
		}
		return len(numbers) > 0, fmt.Sprint(samples)
	})
}

// watched compares the page of stock watch by both sources with the installation.
func watched(t *testing.T, program, url string, addrs []string) {
	for _, args := range [][]string{
		{"--prometheus", url}, {"--instances", strings.Join(addrs, ","), "--every", "1s"},
	} {
		stacktest.Eventually(t, time.Minute, "stock watch "+args[0], func() (bool, string) {
			all := append([]string{"watch", "--once", "--lang", "en"}, args...)
			cmd := exec.CommandContext(t.Context(), program, all...)
			out, err := cmd.CombinedOutput()
			whole := !slices.ContainsFunc(append([]string{
				"redis-watchdog", "zk-sequential", "mysql-table", "lock_busy", "sold_out", "unknown_sku", "/v1/orders",
				"redlock", "zookeeper",
			}, addrs...), func(want string) bool { return !strings.Contains(string(out), want) })
			if whole && args[0] == "--instances" && *write {
				writeExample(t, string(out))
			}
			return err == nil && whole, fmt.Sprintf("%v\n%s", err, out)
		})
	}
}

var write = flag.Bool("write-watch", false, "put a page of stock watch into the documents")

// writeExample puts a page into the documents.
func writeExample(t *testing.T, page string) {
	t.Helper()
	for _, name := range guides {
		path := filepath.Join(root, name)
		text, err := fill(path, "watch", "\n```\n"+page+"```\n\n")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// seconds is the time between the two scrapes of agree.
const seconds = 5

// agree gives two scrapes of each instance to a Prometheus, exactly as far apart as the window, and compares each
// expression with what panels makes of the same scrapes.
func agree(t *testing.T, instances []*stack.Server) {
	end := time.Now().Add(-time.Minute).Truncate(time.Second)
	begin := end.Add(-seconds * time.Second)
	before, after := make([]string, len(instances)), make([]string, len(instances))
	for i, s := range instances {
		before[i] = fetch(t, s.Admin+"/metrics")
	}
	pause(t.Context(), time.Second) // the load goes on meanwhile; how much of it does not matter
	var pairs []panels.Pair
	var file strings.Builder
	for i, s := range instances {
		after[i] = fetch(t, s.Admin+"/metrics")
		pairs = append(pairs, panels.Pair{
			Instance: s.Name, Before: read(t, before[i], s.Name, begin), Now: read(t, after[i], s.Name, end),
		})
		// What is not there at the beginning was 0 then: Prometheus would not know.
		first := stamped(before[i], s.Name, begin)
		for name, line := range stamped(after[i], s.Name, end) {
			if first[name] == "" {
				fmt.Fprintf(&file, "%s 0 %d\n", name, begin.Unix())
			} else {
				file.WriteString(first[name])
			}
			file.WriteString(line)
		}
	}
	file.WriteString("# EOF\n")
	dir := t.TempDir()
	name := filepath.Join(dir, "metrics")
	if err := os.WriteFile(name, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	out, err := exec.Command("promtool", "tsdb", "create-blocks-from", "openmetrics", name, data).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	p := startPrometheus(t, data, "global: {}\n")
	compared := 0
	for _, e := range expressions() {
		text := e.PromQL(fmt.Sprintf("%ds", seconds))
		want, err := p.Query(t.Context(), text, end)
		if err != nil {
			t.Fatal(err)
		}
		got := e.Eval(pairs)
		values := make(map[string]float64)
		for _, s := range got {
			values[fmt.Sprint(s.Labels)] = s.Value
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d values, Prometheus has %d: %v and %v", text, len(got), len(want), got, want)
		}
		for _, s := range want {
			value, there := values[fmt.Sprint(s.Labels)]
			both := math.IsNaN(value) && math.IsNaN(s.Value)
			if !there || !both && !(math.Abs(value-s.Value) <= 1e-9*max(1, math.Abs(s.Value))) {
				t.Errorf("%s: %v is %v (there: %v), Prometheus says %v", text, s.Labels, value, there, s.Value)
			}
			compared++
		}
	}
	if compared < 200 {
		t.Errorf("%d values were compared, which cannot be all", compared)
	}
}

func read(t *testing.T, text, instance string, at time.Time) panels.Scrape {
	t.Helper()
	s, err := panels.ReadScrape(strings.NewReader(text), instance, at)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var exposed = regexp.MustCompile(`^([a-zA-Z_:]+)(?:\{(.*)\})? (\S+)$`)

// stamped returns the series with the labels of a target, by name, each as a line of OpenMetrics with a time.
func stamped(text, instance string, at time.Time) map[string]string {
	lines := map[string]string{}
	add := func(name, labels, value string) {
		series := fmt.Sprintf("%s{%sjob=%q,instance=%q}", name, labels, panels.Job, instance)
		lines[series] = fmt.Sprintf("%s %s %d\n", series, value, at.Unix())
	}
	add("up", "", "1")
	for line := range strings.Lines(text) {
		m := exposed.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		labels := strings.Replace(m[2], "instance=", "exported_instance=", 1) // as Prometheus does
		if labels != "" {
			labels += ","
		}
		add(m[1], labels, m[3])
	}
	return lines
}

// startPrometheus starts one with that configuration on a folder, until the test ends.
func startPrometheus(t *testing.T, data, config string) panels.Prometheus {
	t.Helper()
	name := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	free.Close()
	logs, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("prometheus", "--config.file="+name, "--storage.tsdb.path="+data,
		"--storage.tsdb.retention.time=10y", "--web.listen-address="+addr)
	cmd.Stdout, cmd.Stderr = logs, logs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		logs.Close()
		if text, err := os.ReadFile(logs.Name()); err == nil && t.Failed() {
			t.Logf("prometheus:\n%s", text)
		}
	})
	stacktest.Eventually(t, time.Minute, "Prometheus is ready", func() (bool, string) {
		reply, err := http.Get("http://" + addr + "/-/ready")
		if err != nil {
			return false, err.Error()
		}
		defer reply.Body.Close()
		return reply.StatusCode == http.StatusOK, reply.Status
	})
	return panels.Prometheus{URL: "http://" + addr}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	reply, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
