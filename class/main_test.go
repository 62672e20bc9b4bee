package class

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

var program stacktest.Program

// A removal removes the program after the tests.
type removal struct{ m *testing.M }

func (r removal) Run() int {
	code := r.m.Run()
	if program.Remove() != nil {
		code = max(code, 1)
	}
	return code
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(removal{m}) }

// lesson starts a class with real servers, and sees at the end that nothing is left of it.
func lesson(t *testing.T, change ...func(*Options)) *Class {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Want: []stack.Kind{stack.Redis}, Binary: path, Parent: t.TempDir(), AnyPort: true, Dir: t.TempDir(),
		Bind: "127.0.0.1:0",
	}
	for _, f := range change {
		f(&o)
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
	t.Cleanup(func() {
		apps := c.apps
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, app := range apps {
			if app.Pid() != 0 {
				t.Errorf("%s still runs", app.Name)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(o.Parent, "*")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
	return c
}
