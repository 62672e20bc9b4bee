package main

import (
	"strings"
	"testing"
)

// Columns begin below each other on a terminal, where a Chinese character takes two columns.
func TestTableColumnsAreAligned(t *testing.T) {
	t.Parallel()
	var lines table
	lines.head("策略|FENCE")
	lines.line("甲-2", "7")
	lines.line("a", "")
	var out strings.Builder
	if err := lines.print(&out); err != nil || out.String() != "策略  FENCE\n甲-2  7\na\n" {
		t.Errorf("%v\n%s", err, &out)
	}
}
