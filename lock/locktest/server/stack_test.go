package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var everything = []server.Kind{server.Redis, server.ZooKeeper, server.MySQL}

func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	var events []string
	ctx, cancel := context.WithCancel(t.Context())
	s, err := server.Start(ctx, server.Options{Want: everything, Parent: t.TempDir(), Progress: func(e server.Event) {
		events = append(events, e.Server+" "+e.What)
	}})
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && len(servertest.Processes(s.Dir)) != len(everything)-len(s.Missing()) {
		t.Errorf("running: %q, missing: %q; want one process each", servertest.Processes(s.Dir), s.Missing())
	}
	cancel() // as after Ctrl-C
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}
	servertest.Gone(t, s.Dir)
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
	if _, err := s.Add(t.Context(), server.Redis); err == nil {
		t.Error("a stopped stack starts another server")
	}
	if err := s.Server("redis").Restart(t.Context()); err == nil {
		t.Error("a server of a stopped stack comes back")
	}
	servertest.Gone(t, s.Dir)
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	// The quickest is ready, the others are on their way.
	_, err := server.Start(ctx, server.Options{Want: everything, Parent: parent, Progress: func(e server.Event) {
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
	for _, kind := range []server.Kind{server.ZooKeeper, server.MySQL} {
		_, err := server.Start(t.Context(), server.Options{Want: []server.Kind{server.Redis, kind}, Parent: parent})
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

func empty(t *testing.T, parent string) {
	t.Helper()
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("%s: %v, %v; want it empty", parent, left, err)
	}
	for _, p := range servertest.Processes(parent) {
		t.Errorf("left running: %s", p)
	}
}
