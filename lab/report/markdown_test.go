package report_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/report"
)

func markdown(t *testing.T, r lab.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := matrix(r).WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every scenario of the catalogue has its row, and every row of a table is as wide as its head.
func TestMarkdownHasEveryScenario(t *testing.T) {
	text := markdown(t, whole())
	for _, s := range all() {
		if n := strings.Count(text, `<a id="`+s.Name+`"></a>`); n != 1 {
			t.Errorf("%s has %d rows", s.Name, n)
		}
	}
	width := 0
	for line := range strings.Lines(text) {
		switch columns := strings.Count(line, "|"); {
		case !strings.HasPrefix(line, "|"):
			width = 0
		case width == 0:
			width = columns
		case columns != width:
			t.Errorf("%d columns, the head has %d: %s", columns, width, line)
		}
	}
}

// Texts of two runs that found the same are alike, though ports, fences, times and names of instances differ.
func TestGeneric(t *testing.T) {
	first := report.Generic([]string{
		"B got the lock 9.934s after the crash", "A (app-20): sold, fence 1795273949909994",
		"the largest fence that the store has seen is 1795273949909999",
		"redis: PTTL lab-get-then-del-54 = 2m0s at 127.0.0.1:4711",
	})
	second := report.Generic([]string{
		"B got the lock 10.21s after the crash", "A (app-3): sold, fence 17",
		"the largest fence that the store has seen is 21",
		"redis: PTTL lab-get-then-del-1234 = 2m0s at 127.0.0.1:31000",
	})
	want := []string{
		"B got the lock 10s after the crash", "A (app-1): sold, fence no. 1",
		"the largest fence that the store has seen is no. 2", "redis: PTTL SKU = 2m0s at 127.0.0.1:PORT",
	}
	if !slices.Equal(first, want) || !slices.Equal(second, want) {
		t.Errorf("%q and %q, want %q", first, second, want)
	}
}
