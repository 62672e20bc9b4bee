package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if dir, err := programDir(); err == nil {
			os.RemoveAll(dir)
		}
		os.Exit(code)
	}))
}

var programDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "stock-lab-") })

// program is the stock program, built with the race detector, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := programDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "stock")
	out, err := exec.Command("go", "build", "-race", "-o", path, "../cmd/stock").CombinedOutput()
	if err != nil {
		return path, fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// run runs scenarios on real servers. What is missing skips the test, or fails it in CI.
func run(t *testing.T, o Options) Report {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	o.Binary, o.Parent = path, t.TempDir()
	report, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, c := range report.Skipped() {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Errorf("REQUIRE_BACKENDS=1, but %s: %s: %s", c.Scenario, c.Case(), c.Skipped)
		}
	}
	return report
}
