package traces_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

var program stacktest.Program

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operator = "token-of-the-operator"

// A shop has real servers, and instances that are traced to an inbox.
type shop struct {
	*stack.Stack
	t     testing.TB
	inbox *inbox
	store string
	db    *sql.DB
	front string // URL of nginx
	app   *stack.Server
}

// traced returns the environment that switches traces on.
func traced(url string) []string {
	return []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=50",
		"STOCK_TRACES_ATTRIBUTES=sku,customer",
	}
}

// newShop starts the servers and one instance behind nginx.
func newShop(t testing.TB, store string, env ...string) *shop {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	want := []stack.Kind{stack.Redis, stack.MySQL}
	if strings.Contains(strings.Join(env, " "), "zk-") {
		want = append(want, stack.ZooKeeper)
	}
	s := &shop{t: t, store: store, inbox: newInbox(t), Stack: stacktest.Start(t, stack.Options{
		Want: want, Binary: path, AnyPort: true,
		Env: []string{"STOCK_PROFILE=orders", "STOCK_STORE=" + store, "STOCK_ADMIN_TOKEN=" + operator},
	})}
	for _, kind := range want {
		if reason, missing := s.Missing()[string(kind)]; missing {
			stacktest.Started(t, &stack.MissingError{Program: string(kind), Install: reason})
		}
	}
	if len(env) == 0 {
		env = traced(s.inbox.URL)
	}
	apps, err := s.Serve(t.Context(), 1, env...)
	if err != nil {
		t.Fatal(err)
	}
	s.app = apps[0]
	nginx, err := s.Front(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.front = nginx.URL
	if s.db, err = sql.Open("mysql", s.Server(string(stack.MySQL)).URL+"?multiStatements=true"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	return s
}

// run starts a program until the end of the test. kill ends it at once.
func (s *shop) run(path string, env []string, args ...string) (kill func()) {
	s.t.Helper()
	log, err := os.Create(filepath.Join(s.t.TempDir(), "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			_ = log.Close()
		}
	}
	s.t.Cleanup(func() {
		kill()
		if text, _ := os.ReadFile(log.Name()); s.t.Failed() {
			s.t.Logf("%s %q: %s", path, args, text)
		}
	})
	return kill
}

// relay starts a relay of its own process.
func (s *shop) relay(env ...string) (kill func()) {
	s.t.Helper()
	path, err := program.Path()
	if err != nil {
		s.t.Fatal(err)
	}
	all := append(s.Env(), "STOCK_STORE="+s.store, "STOCK_LOCK_WATCHDOG_LEASE=1s")
	return s.run(path, append(all, env...), "relay")
}

// consumer starts the example of a consumer.
func (s *shop) consumer(env ...string) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "consumer")
	build := exec.Command("go", "build", "-o", path, "example.com/stock/docs/examples/consumer")
	if said, err := build.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, said)
	}
	schema, err := os.ReadFile("../../docs/examples/consumer/schema.sql")
	if err == nil {
		_, err = s.db.Exec(string(schema))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.run(path, env, "-redis", s.Server(string(stack.Redis)).Addr, "-mysql", s.Server(string(stack.MySQL)).URL)
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
}

// do sends a request through nginx. The headers come as pairs.
func (s *shop) do(method, path, body string, headers ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.front+path, bytes.NewBufferString(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+operator)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode, header: res.Header}
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &a.body)
	}
	if err != nil {
		s.t.Fatalf("%s %s: %d %s: %v", method, path, a.status, text, err)
	}
	return a
}

// stock sets the stock of a SKU.
func (s *shop) stock(sku string, n int) {
	s.t.Helper()
	path := fmt.Sprintf("/v1/stock/%s", sku)
	if a := s.do("PUT", path, fmt.Sprintf(`{"quantity":%d}`, n)); a.status != http.StatusOK {
		s.t.Fatalf("set the stock: %v", a)
	}
}

// checkout orders one unit.
func (s *shop) checkout(sku string, headers ...string) answer {
	s.t.Helper()
	return s.do("POST", "/v1/orders", `{"customer":"ann","lines":[{"sku":"`+sku+`","quantity":1}]}`, headers...)
}

// await returns the spans once they satisfy what is wanted of them.
func (s *shop) await(what string, ok func([]span) bool) (all []span) {
	s.t.Helper()
	stacktest.Eventually(s.t, time.Minute, what, func() (bool, string) {
		all = s.inbox.all()
		var names []string
		for _, one := range all {
			names = append(names, one.name)
		}
		return ok(all), strings.Join(names, ", ")
	})
	return all
}
