package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

var (
	servers stacktest.Shared
	program stacktest.Program
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(servers.Around(m), goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		_ = program.Remove()
		os.Exit(code)
	}))
}

// a cluster is instances as separate processes, with all the backends, behind a front.
type cluster struct {
	*stack.Stack
	apps  []*stack.Server
	front *stack.Server
}

// startCluster starts backends of its own, so that they can be stopped. Where one is not installed the test is skipped, or fails in CI.
func startCluster(t *testing.T, instances int, env ...string) *cluster {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	s, err := stack.Start(t.Context(), stack.Options{
		Want: demoServers(), AOF: true, Binary: path,
		Env: append([]string{
			"STOCK_ADMIN_TOKEN=" + demoToken, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=300ms", "STOCK_ZOOKEEPER_SESSION_TIMEOUT=3s",
			"STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=1s",
		}, env...),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLogs(t, s)
		}
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	for name, reason := range s.Missing() {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but %s: %s", name, reason)
		}
		t.Skip(reason)
	}
	c := &cluster{Stack: s}
	if c.apps, err = s.Serve(t.Context(), instances); err != nil {
		t.Fatal(err)
	}
	if c.front, err = s.Front(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

func showLogs(t *testing.T, s *stack.Stack) {
	if front := s.Server("nginx"); front != nil {
		words, _ := os.ReadFile(filepath.Join(strings.TrimSuffix(front.Log, ".log"), "error.log"))
		t.Logf("nginx: %s", words)
	}
	for i := 1; s.Server(fmt.Sprint("app-", i)) != nil; i++ {
		log, _ := os.ReadFile(s.Server(fmt.Sprint("app-", i)).Log)
		lines := bytes.Split(log, []byte("\n"))
		t.Logf("app-%d: ...\n%s", i, bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
	}
}

func (c *cluster) client(t *testing.T, concurrency int) *loadtest.Client {
	t.Helper()
	client, err := loadtest.NewClient(c.front.URL, demoToken, concurrency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// get asks a URL and returns the status and the body; 0 if there was no reply.
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

// eventually asks until it is so, or fails with what was last seen.
func eventually(t *testing.T, limit time.Duration, what string, so func() (bool, string)) {
	t.Helper()
	began, seen := time.Now(), ""
	for time.Since(began) < limit {
		var ok bool
		if ok, seen = so(); ok {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Errorf("not within %v: %s (last: %s)", limit, what, seen)
}

// run is a stock command line in this process.
func run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	root := rootCommand()
	var out, errs bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}
