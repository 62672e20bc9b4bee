package stack_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"example.com/stock/stack"
)

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
