package lab

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/stack/stacktest"
)

var program stacktest.Program

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = program.Remove()
		os.Exit(code)
	}))
}

// run runs scenarios on real servers. What is missing skips the test, or fails it in CI.
func run(t *testing.T, o Options) Report {
	t.Helper()
	path, err := program.Path()
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
