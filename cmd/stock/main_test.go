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
	"strings"
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
	goleak.VerifyTestMain(servers.Around(m), goleak.Cleanup(func(code int) {
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

// startServers starts servers of these kinds for instances of a program, and skips the test if one is not installed. As
// nobody harms the servers, a time-out would only mean that the computer is busy.
func startServers(t *testing.T, p *stacktest.Program, want []server.Kind) *stack.Stack {
	t.Helper()
	s := stacktest.Start(t, stack.Options{
		Options: server.Options{Want: want, AOF: true}, Binary: p.Path(t),
		Env: []string{
			"STOCK_ADMIN_TOKEN=" + demoToken, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=300ms",
			"STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=1s", "STOCK_REDIS_TIMEOUT=10s",
			"STOCK_WORK=10s", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=6s",
			"GORACE=" + os.Getenv("GORACE") + " halt_on_error=1",
		},
	})
	for name, reason := range s.Missing() {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but %s: %s", name, reason)
		}
		t.Skip(reason)
	}
	return s
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
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// command runs a stock command line in this process, and returns its exit status and all that it says.
func command(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	stdout, stderr, err := run(t.Context(), args...)
	said = stdout + stderr
	if status, err = ended(err); err != nil {
		said += err.Error()
	}
	return status, said
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
