package class

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

var (
	program = stacktest.Program{Plain: true}
	browser browsertest.Shared
	room    shared
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(browser.Around(around{m})) }

// A shared is the class of all tests that need no other: to start one takes some seconds of both cores. It is started
// when a test first asks for it.
type shared struct {
	class *Class
	dir   string
}

// around ends the shared class after the tests.
type around struct{ m *testing.M }

func (a around) Run() int {
	code := a.m.Run()
	if room.class == nil {
		return code
	}
	left := leftOf(room.class)
	for _, err := range append(left, os.RemoveAll(room.dir)) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// lesson returns the shared class, with all its servers up and no request under way.
func lesson(t *testing.T) *Class {
	t.Helper()
	if room.class == nil {
		dir, err := os.MkdirTemp("", "class")
		if err != nil {
			t.Fatal(err)
		}
		room.dir = dir
		room.class = begin(t, dir)
	}
	room.class.tidy(t)
	return room.class
}

// own starts a class for this test alone. It is ended with the test, unless the test has done so.
func own(t *testing.T, change ...func(*Options)) *Class {
	t.Helper()
	c := begin(t, t.TempDir(), change...)
	t.Cleanup(func() {
		if c.ctx.Err() != nil {
			return
		}
		for _, err := range leftOf(c) {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

func begin(t *testing.T, dir string, change ...func(*Options)) *Class {
	t.Helper()
	o := Options{
		Want: []server.Kind{server.Redis}, Binary: program.Path(t), Parent: filepath.Join(dir, "stack"), AnyPort: true,
		Dir: filepath.Join(dir, "runs"), Bind: "127.0.0.1:0", Lang: "en", pace: 0.4,
	}
	for _, f := range change {
		f(&o)
	}
	if err := os.MkdirAll(o.Parent, 0o755); err != nil {
		t.Fatal(err)
	}
	c, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if reason := c.stack.Missing()["redis"]; reason != "" {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return c
}

// leftOf ends a class, and returns what it has left behind.
func leftOf(c *Class) (left []error) {
	pids := map[string]int{}
	servers := append([]*server.Server(nil), c.apps...)
	for _, name := range []string{"redis", "nginx"} {
		if s := c.stack.Server(name); s != nil {
			servers = append(servers, s)
		}
	}
	for _, s := range servers {
		pids[s.Name] = s.Pid()
	}
	left = append(left, c.Close())
	for name, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); pid > 0 && err == nil {
			left = append(left, fmt.Errorf("%s still runs", name))
		}
	}
	if files, _ := filepath.Glob(filepath.Join(c.o.Parent, "*")); len(files) > 0 {
		left = append(left, fmt.Errorf("left behind: %q", files))
	}
	return left
}

// tidy undoes what an earlier test has done.
func (c *Class) tidy(t *testing.T) {
	t.Helper()
	c.stopScene()
	c.Auto(false)
	if c.pausedAll() {
		if err := c.Pause(false); err != nil {
			t.Error(err)
		}
	}
	c.raise()
	c.awaitReady(RunPlan{Strategy: "redis-watchdog", Store: "redis"})
	servertest.Eventually(t, 70*time.Second, "all is up and no request is under way", func() (bool, string) {
		_ = c.Step()
		c.mu.Lock()
		defer c.mu.Unlock()
		up := true
		var states []RunEvent
		c.look(func(s *State) { states = s.standing() })
		for _, e := range states {
			up = up && e.State == "up"
		}
		return up && c.left == 0, fmt.Sprint(states, c.left)
	})
	if c.voting().On {
		_ = c.CloseVote(nil)
	}
	c.school.mu.Lock()
	clear(c.school.students)
	c.school.mu.Unlock()
}
