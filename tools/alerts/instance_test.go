package main

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/stock/handler/access/issuer"
	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/words"
)

var (
	exposed   = regexp.MustCompile(`^([a-zA-Z_:]+)(?:\{(.*)\})? \S+$`)
	label     = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	selector  = regexp.MustCompile(`\b(stock_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher   = regexp.MustCompile(`([a-z_]+)(=~?)"([^"]*)"`)
	grouping  = regexp.MustCompile(`by \(([^)]*)\)`)
	named     = regexp.MustCompile(`\bstock_[a-z_]+`)
	ofTargets = []string{"instance", "job"} // labels that Prometheus adds
)

// folder has the program until the end of the tests.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "alerts-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// buildStock builds the stock program once, and returns its path.
var buildStock = sync.OnceValues(func() (string, error) {
	program := filepath.Join(folder, "stock")
	build := exec.Command("go", "build", "-o", program, "./cmd/stock")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
})

// scraped has the labels of each series of an instance, by the name of the metric.
type scraped map[string][]map[string]string

// Every metric, label and value in the rules exists in what a real instance exposes. Otherwise an alert would stay
// silent for ever, and no test with made-up series would notice. The series of the examples are compared, too.
func TestTheRulesAskForWhatAnInstanceExposes(t *testing.T) {
	metrics := scrapeAnInstance(t)
	var expressions []string
	for _, o := range []objective{answered, quick} {
		expressions = append(expressions, o.ratio("5m"))
	}
	for _, a := range catalogue() {
		expressions = append(expressions, a.Expr)
		for _, e := range slices.Concat(a.Fires, a.Quiet) {
			for _, s := range e.Series {
				metrics.checkExample(t, a.Name, s.Name)
			}
		}
	}
	checked := 0
	for _, expr := range expressions {
		checked += metrics.check(t, expr)
	}
	for book := range byRunbook() {
		for suffix := range sections {
			for _, name := range named.FindAllString(readFile(t, "docs/runbooks/"+book+suffix), -1) {
				if !metrics.has(name) {
					t.Errorf("%s%s names %s, which no instance exposes", book, suffix, name)
				}
			}
		}
	}
	if checked < 30 {
		t.Errorf("%d selectors were checked, which cannot be all", checked)
	}
}

// has reports whether name is a metric, a histogram, or the beginning of names for grep.
func (s scraped) has(name string) bool {
	for metric := range s {
		if metric == name || metric == name+"_count" ||
			strings.HasSuffix(name, "_") && strings.HasPrefix(metric, name) {
			return true
		}
	}
	return false
}

// check compares an expression with the metrics, and returns how many selectors it has.
func (s scraped) check(t *testing.T, expr string) int {
	t.Helper()
	found := selector.FindAllStringSubmatch(expr, -1)
	for _, m := range found {
		if len(s[m[1]]) == 0 {
			t.Errorf("no instance exposes %s, which is in\n%s", m[1], expr)
			continue
		}
		for _, condition := range matcher.FindAllStringSubmatch(m[2], -1) {
			s.checkValues(t, m[1], condition[1], condition[2], condition[3])
		}
		for _, by := range grouping.FindAllStringSubmatch(expr, -1) {
			for name := range strings.SplitSeq(by[1], ", ") {
				if _, there := s[m[1]][0][name]; !there && !slices.Contains(ofTargets, name) {
					t.Errorf("%s has no label %s, which is in\n%s", m[1], name, expr)
				}
			}
		}
	}
	return len(found)
}

// checkValues checks that each alternative of a condition is the value of a label.
func (s scraped) checkValues(t *testing.T, metric, name, operator, values string) {
	t.Helper()
	alternatives := []string{values}
	if operator == "=~" {
		alternatives = strings.Split(values, "|")
	}
	switch name {
	case "problem": // a healthy instance has few of them
		texts, err := words.ReadTexts(os.DirFS(filepath.Join(root, "handler")), "text")
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range alternatives {
			if !slices.Contains(problemNames(texts), value) {
				t.Errorf("there is no problem %s", value)
			}
		}
		return
	case "outcome": // TestLockOutcomes in app/metrics has all of them
		return
	}
	for _, value := range alternatives {
		pattern := regexp.MustCompile("^(?:" + value + ")$")
		if !slices.ContainsFunc(s[metric], func(l map[string]string) bool {
			got, there := l[name]
			return there && pattern.MatchString(got)
		}) {
			t.Errorf("no %s of an instance has %s%s%q", metric, name, operator, value)
		}
	}
}

// checkExample checks that a series of an example has the labels of the real one.
func (s scraped) checkExample(t *testing.T, alert, series string) {
	t.Helper()
	name, text, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	if name == "up" { // Prometheus makes it
		return
	}
	if len(s[name]) == 0 {
		t.Errorf("%s: no instance exposes %s", alert, name)
		return
	}
	got := make(map[string]bool)
	for _, m := range label.FindAllStringSubmatch(text, -1) {
		got[m[1]] = true
		if _, there := s[name][0][m[1]]; !there && !slices.Contains(ofTargets, m[1]) {
			t.Errorf("%s: %s has no label %s", alert, name, m[1])
		}
	}
	for want := range s[name][0] {
		if !got[want] {
			t.Errorf("%s: %s lacks the label %s", alert, series, want)
		}
	}
}

// scrapeAnInstance returns what an instance with every server exposes after a few requests.
func scrapeAnInstance(t *testing.T) scraped {
	t.Helper()
	program, err := buildStock()
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Repeat([]stack.Kind{stack.Redis}, 5), stack.MySQL, stack.ZooKeeper) // five are for Redlock
	s := stacktest.Start(t, stack.Options{Want: want, Binary: program, AnyPort: true})
	if missing := s.Missing(); len(missing) > 0 {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but %v", missing)
		}
		t.Skip(missing)
	}
	keys, pair := filepath.Join(t.TempDir(), "keys.json"), stacktest.NewCA(t, "ca").Issue(t, "relay")
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := issuer.New(private).WriteJWKS(keys); err != nil {
		t.Fatal(err)
	}
	servers, err := s.Serve(t.Context(), 1, "STOCK_AUTH=tokens", "STOCK_ADMIN_TOKEN="+operator,
		"STOCK_TOKENS_ISSUER=issuer", "STOCK_TOKENS_AUDIENCE=stock", "STOCK_TOKENS_KEYS_FILE="+keys,
		"STOCK_RELAY_ENABLED=true",
		"STOCK_RELAY_SINK=webhook", "STOCK_RELAY_WEBHOOK_URL=https://127.0.0.1:1/events",
		"STOCK_RELAY_WEBHOOK_INTERNAL=true",
		"STOCK_RELAY_WEBHOOK_SECRETS=whsec_"+strings.Repeat("QUJD", 10), "STOCK_RELAY_WEBHOOK_TLS_ENABLED=true",
		"STOCK_RELAY_WEBHOOK_TLS_CERT="+pair.Cert, "STOCK_RELAY_WEBHOOK_TLS_KEY="+pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/deduct_stock_lock?sku=stock", "/deduct_stock_lock?sku=unknown", "/v1/stock/stock/deduct", "/v1/orders",
		"/v1/reservations",
	} {
		reply(t, http.MethodPost, servers[0].URL+path)
	}
	metrics := make(scraped)
	for line := range strings.Lines(reply(t, http.MethodGet, servers[0].Admin+"/metrics")) {
		m := exposed.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		of := make(map[string]string)
		for _, pair := range label.FindAllStringSubmatch(m[2], -1) {
			of[pair[1]] = pair[2]
		}
		metrics[m[1]] = append(metrics[m[1]], of)
	}
	return metrics
}

// operator is a token that may do everything.
const operator = "operator"

// reply sends a request without a body, and returns the body of the reply, whatever its status.
func reply(t *testing.T, method, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+operator)
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("%s: %w", url, err))
	}
	return string(body)
}
