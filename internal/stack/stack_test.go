package stack_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

var everything = []server.Kind{server.Redis, server.ZooKeeper, server.MySQL}

func TestTwoOfASortHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Options: server.Options{Want: []server.Kind{server.Redis, server.Redis}}})
	third, err := s.Add(t.Context(), server.Redis)
	if err != nil {
		t.Fatal(err)
	}
	if third.Name != "redis-3" {
		t.Errorf("third redis: %s", third.Name)
	}
	want := "STOCK_REDIS_URL=redis://" + s.Server("redis").Addr // the others are for redlock
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
	servertest.Needs(t, server.Redis)
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
	if n := len(servertest.Processes(parent)); n < 2 {
		t.Errorf("%d processes before the kill: %q", n, servertest.Processes(parent))
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	within(t, "all servers gone", func() bool { return len(servertest.Processes(parent)) == 0 })
}

func TestMissingProgramsAreNamedAndStoodInFor(t *testing.T) {
	t.Setenv("PATH", "")
	var mu sync.Mutex
	told := map[string]string{}
	s := start(t, stack.Options{Options: server.Options{Want: everything, Progress: func(e server.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.What == "missing" {
			told[e.Server] = e.Detail
		}
	}}})
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
	_, err := s.Add(t.Context(), server.MySQL)
	var missing *server.MissingError
	if !errors.As(err, &missing) || missing.Program != "mariadbd" {
		t.Errorf("Add: %v, want a MissingError for mariadbd", err)
	}
}
