package report_test

import (
	"bytes"
	"strings"
	"testing"

	"example.com/stock/lab"
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
