// Package golden compares what a test got with a file that was kept.
package golden

import (
	"os"
	"strings"
	"testing"
)

// Compare compares text with file line by line, and reports the first line that differs; the test goes on. With update
// it writes the file first.
func Compare(t testing.TB, file, text string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, want := strings.Split(text, "\n"), strings.Split(string(kept), "\n")
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("line %d of %s (go test -update rewrites it):\n%s\nwas\n%s", i+1, file, got[i], want[i])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d lines, now %d", file, len(want), len(got))
	}
}
