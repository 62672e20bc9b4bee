package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

var (
	servers servertest.Shared
	cluster sharedCluster
	program stacktest.Program // a race in it is an exit status
	// plain is the program of the instances.
	plain = stacktest.Program{Plain: true}
)

func TestMain(m *testing.M) {
	// The settings of a developer's shell must not decide these tests.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "STOCK_") {
			os.Unsetenv(name)
		}
	}
	os.Setenv("STOCK_LANG", "en")
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // most of these tests wait for processes
		panic(err)
	}
	goleak.VerifyTestMain(servers.Around(cluster.around(m)), goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

// A group is a number of instances as separate processes, behind a proxy.
type group struct {
	*stack.Stack
	apps  []*server.Server
	front *server.Server
}

// A sharedCluster has servers of all kinds for tests that do not harm them. Each test has its own instances there, and
// should have its own SKUs. The servers start when a test first asks.
type sharedCluster struct {
	mu    sync.Mutex
	stack *stack.Stack
}

type runner func() int

func (r runner) Run() int { return r() }

// around wraps m: its Run runs the tests and stops the servers.
func (s *sharedCluster) around(m interface{ Run() int }) interface{ Run() int } {
	return runner(func() int {
		code := m.Run()
		if s.stack == nil {
			return code
		}
		if err := s.stack.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		return code
	})
}

// serve starts that many instances on the shared servers, and stops them with the test.
func (s *sharedCluster) serve(t *testing.T, instances int, env ...string) *group {
	t.Helper()
	s.start(t)
	c := serve(t, s.stack, instances, env...)
	t.Cleanup(func() {
		for _, server := range append(c.apps, c.front) {
			if err := server.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

// serveRaced is serve with instances that end at the first race which the race detector finds in them.
func (s *sharedCluster) serveRaced(t *testing.T, instances int, env ...string) *group {
	t.Helper()
	s.start(t)
	own := stacktest.Start(t, stack.Options{
		Binary: pathOf(t, &program),
		Env: append(
			slices.Concat(s.stack.Env(), instanceEnv(), unharmed()), "GORACE="+os.Getenv("GORACE")+" halt_on_error=1",
		),
	})
	return serve(t, own, instances, env...)
}

// start starts the servers, if that has not been done.
func (s *sharedCluster) start(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stack == nil {
		s.stack = startServers(t, context.Background(), demoServers(), unharmed()...)
	}
	skipIfMissing(t, s.stack)
}

// startServers starts servers of these kinds for instances with these settings, besides those that all have.
func startServers(t *testing.T, ctx context.Context, want []server.Kind, env ...string) *stack.Stack {
	t.Helper()
	s, err := stack.Start(ctx, stack.Options{
		Options: server.Options{Want: want, AOF: true}, Binary: pathOf(t, &plain), Env: append(instanceEnv(), env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func instanceEnv() []string {
	return []string{
		"STOCK_ADMIN_TOKEN=" + demoToken, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=300ms",
		"STOCK_ZOOKEEPER_SESSION_TIMEOUT=3s", "STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=1s",
	}
}

// unharmed returns the settings of instances whose servers nobody harms: a time-out there would only mean that the
// computer is busy.
func unharmed() []string {
	return []string{"STOCK_REDIS_TIMEOUT=10s", "STOCK_WORK=10s", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=6s"}
}

// skipIfMissing skips the test if a server is not installed, or fails it in CI.
func skipIfMissing(t *testing.T, s *stack.Stack) {
	t.Helper()
	for name, reason := range s.Missing() {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but %s: %s", name, reason)
		}
		t.Skip(reason)
	}
}

// serve starts instances and their proxy.
func serve(t *testing.T, s *stack.Stack, instances int, env ...string) *group {
	t.Helper()
	c := &group{Stack: s}
	var err error
	if c.apps, err = s.Serve(t.Context(), instances, env...); err != nil {
		t.Fatal(err)
	}
	if c.front, err = s.Front(t.Context(), c.apps...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			c.showLogs(t)
		}
	})
	return c
}

func (c *group) showLogs(t *testing.T) {
	words, _ := os.ReadFile(filepath.Join(strings.TrimSuffix(c.front.Log, ".log"), "error.log"))
	t.Logf("nginx: %s", words)
	for _, app := range c.apps {
		log, _ := os.ReadFile(app.Log)
		lines := bytes.Split(log, []byte("\n"))
		t.Logf("%s: ...\n%s", app.Name, bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
	}
}

func (c *group) client(t *testing.T, concurrency int) *loadtest.Client {
	t.Helper()
	client, err := loadtest.NewClient(c.front.URL, demoToken, concurrency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// get returns the status and body of a URL. The status is 0 if there was no reply.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// run runs a stock command line in this process.
func run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	root := rootCommand(language(args, os.Getenv))
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	err = execute(ctx, root, args)
	return out.String(), errs.String(), err
}

// says fails unless err has all of the words, and none of those that begin with "!".
func says(t *testing.T, err error, words ...string) {
	t.Helper()
	text := fmt.Sprint(err)
	for _, word := range words {
		if unwanted, no := strings.CutPrefix(word, "!"); no {
			if strings.Contains(text, unwanted) {
				t.Errorf("the error has %q in it:\n%s", unwanted, text)
			}
		} else if err == nil || !strings.Contains(text, word) {
			t.Errorf("the error lacks %q:\n%s", word, text)
		}
	}
}

// file writes a file and returns its path.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
