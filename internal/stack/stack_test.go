package stack_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

var everything = []stack.Kind{stack.Redis, stack.ZooKeeper, stack.MySQL}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	var events []string
	ctx, cancel := context.WithCancel(t.Context())
	s, err := stack.Start(ctx, stack.Options{Want: everything, Parent: t.TempDir(), Progress: func(e stack.Event) {
		events = append(events, e.Server+" "+e.What)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && len(processes(s.Dir)) != len(everything)-len(s.Missing()) {
		t.Errorf("running: %q, missing: %q; want one process each", processes(s.Dir), s.Missing())
	}
	cancel() // as after Ctrl-C
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	gone(t, s.Dir)
	for _, kind := range everything {
		want := []string{"starting", "ready", "stopped"}
		if s.Missing()[string(kind)] != "" {
			continue
		}
		var got []string
		for _, e := range events {
			if what, ok := strings.CutPrefix(e, string(kind)+" "); ok {
				got = append(got, what)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("events of %s: %q, want %q", kind, got, want)
		}
	}
	if _, err := s.Add(t.Context(), stack.Redis); err == nil {
		t.Error("a stopped stack starts another server")
	}
	if err := s.Server("redis").Restart(t.Context()); err == nil {
		t.Error("a server of a stopped stack comes back")
	}
	gone(t, s.Dir)
}

func TestStopGivesUpAStart(t *testing.T) {
	t.Parallel()
	starting := make(chan struct{})
	s := start(t, stack.Options{Progress: func(e stack.Event) {
		if e.What == "starting" {
			close(starting)
		}
	}})
	var began sync.WaitGroup
	began.Go(func() {
		<-starting
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	_, err := s.Add(t.Context(), stack.MySQL)
	began.Wait()
	if err == nil {
		t.Error("the start went on")
	}
	gone(t, s.Dir)
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	// The quickest is ready, the others are on their way.
	_, err := stack.Start(ctx, stack.Options{Want: everything, Parent: parent, Progress: func(e stack.Event) {
		if e.What == "ready" || e.What == "missing" {
			cancel(why)
		}
	}})
	if !errors.Is(err, why) {
		t.Errorf("Start: %v, want %v", err, why)
	}
	empty(t, parent)
}

func TestFailedStartQuotesTheLogAndLeavesNothing(t *testing.T) {
	programs, parent := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\necho the flux capacitor is empty\nexit 7\n"
	for _, name := range []string{"java", "mariadbd", "mariadb-install-db"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ZOOKEEPER_HOME", fakeZooKeeper(t))
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, kind := range []stack.Kind{stack.ZooKeeper, stack.MySQL} {
		_, err := stack.Start(t.Context(), stack.Options{Want: []stack.Kind{stack.Redis, kind}, Parent: parent})
		for _, want := range []string{string(kind), "flux capacitor", "exit status 7"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", kind, err, want)
			}
		}
		empty(t, parent)
	}
}

// fakeZooKeeper is a home with a jar that no java will open.
func fakeZooKeeper(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "zookeeper-3.8.0.jar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestKeepLeavesTheLogs(t *testing.T) {
	t.Parallel()
	s, err := stack.Start(t.Context(), stack.Options{Want: []stack.Kind{stack.Redis}, Parent: t.TempDir(), Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	server := s.Server("redis")
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if server.StandIn != "" {
		t.Skip(server.StandIn)
	}
	if text, err := os.ReadFile(server.Log); err != nil || len(text) == 0 {
		t.Errorf("%s: %d bytes, %v; want a log", server.Log, len(text), err)
	}
}

func TestTwoOfASortHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Want: []stack.Kind{stack.Redis, stack.Redis}})
	third, err := s.Add(t.Context(), stack.Redis)
	if err != nil {
		t.Fatal(err)
	}
	if third.Name != "redis-3" {
		t.Errorf("third redis: %s", third.Name)
	}
	want := "STOCK_REDIS_ADDRS=" + s.Server("redis").Addr // several would mean a cluster
	if !slices.Contains(s.Env(), want) {
		t.Errorf("Env() = %q, want %q", s.Env(), want)
	}
}

// A parent that is killed cannot stop its servers; the kernel does.
func TestServersDieWithTheirParent(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells a child that its parent died")
	}
	stacktest.Needs(t, stack.Redis)
	parent := t.TempDir()
	cmd := exec.Command(os.Args[0], "orphan", parent)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started <nil>\n" {
		t.Errorf("orphan says %q, %v", line, err)
	}
	if n := len(processes(parent)); n < 2 {
		t.Errorf("%d processes before the kill: %q", n, processes(parent))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	within(t, "all servers gone", func() bool { return len(processes(parent)) == 0 })
}

func empty(t *testing.T, parent string) {
	t.Helper()
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%s: %v, %v; want it empty", parent, left, err)
	}
	for _, p := range processes(parent) {
		t.Errorf("left running: %s", p)
	}
}

func TestMissingProgramsAreNamedAndStoodInFor(t *testing.T) {
	t.Setenv("PATH", "")
	var mu sync.Mutex
	told := map[string]string{}
	s := start(t, stack.Options{Want: everything, Progress: func(e stack.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.What == "missing" {
			told[e.Server] = e.Detail
		}
	}})
	if _, err := s.Serve(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Front(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"redis":     {"redis-server not found on PATH", "apt-get install redis-server", "miniredis stands in"},
		"zookeeper": {"needs Java", "java not found on PATH", "apt-get install"},
		"mysql":     {"mariadbd not found on PATH", "apt-get install mariadb-server"},
		"nginx":     {"nginx not found on PATH", "apt-get install nginx", "proxy inside this process stands in"},
	} {
		for _, part := range want {
			if got := s.Missing()[name]; !strings.Contains(got, part) {
				t.Errorf("missing %s: %q, want %q in it", name, got, part)
			}
		}
		if strings.HasPrefix(s.Missing()[name], "start ") {
			t.Errorf("missing %s: %q is an error message, not a reason", name, s.Missing()[name])
		}
		if told[name] != s.Missing()[name] {
			t.Errorf("progress said %q of %s, Missing says %q", told[name], name, s.Missing()[name])
		}
	}
	for name, there := range map[string]bool{"redis": true, "zookeeper": false, "mysql": false, "nginx": true} {
		if got := s.Server(name) != nil; got != there {
			t.Errorf("server %s: there %v, want %v", name, got, there)
		}
	}
	_, err := s.Add(t.Context(), stack.MySQL)
	var missing *stack.MissingError
	if !errors.As(err, &missing) || missing.Program != "mariadbd" {
		t.Errorf("Add: %v, want a MissingError for mariadbd", err)
	}
}
