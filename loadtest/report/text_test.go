package report_test

import (
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/loadtest/report"
)

// A strategy may be called anything in a history. What is named after it is a file in the folder.
func TestNamesOfStrategiesAreNoPaths(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string]string{
		"redis-watchdog": "redis-watchdog", "v1.2": "v1.2", "商店": "商店", "my shop": "my_shop",
		"../../x": "__.._x", "/etc/passwd": "_etc_passwd", "..": "_", `a\b`: "a_b", "a\x00b": "a_b",
		".hidden": "_hidden", "-rf": "_rf", strings.Repeat("é", 300): strings.Repeat("é", 50),
	} {
		got := report.FileName(strategy)
		if got != want || filepath.Base(got) != got || len(got) > 100 {
			t.Errorf("%q: %q, want %q", strategy, got, want)
		}
	}
}
