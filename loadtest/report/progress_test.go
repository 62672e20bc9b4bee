package report_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// A line of progress has what is known, the more important first, as far as the terminal is wide.
func TestProgress(t *testing.T) {
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	steps := []loadtest.Progress{
		{Done: 1, Total: 9, Elapsed: second(1), SoldRate: 41.2, P99MS: 12, WarmUp: true},
		{
			Done: 2, Total: 9, Elapsed: second(2), Left: second(7),
			Outcomes: map[loadtest.Outcome]int{loadtest.Busy: 217},
		},
		{Done: 3, Elapsed: second(3), Outcomes: map[loadtest.Outcome]int{loadtest.SoldOut: 318}, Oversold: 419},
		{Done: 3, Elapsed: second(5), Interrupted: true, Left: second(1)},
		{
			Done: 9, Total: 9, Elapsed: second(5), Last: true, Interrupted: true,
			Outcomes: map[loadtest.Outcome]int{loadtest.Failed: 521}, Late: 622, Dropped: 723,
		},
	}
	for _, row := range []struct {
		columns int
		lines   [][]string // what each of them has
	}{
		{0, [][]string{
			{"none: ", "2 of 9", "busy 217", "7s left"}, {"none: "}, {"none: ", "9 of 9", "521", "622", "723"},
		}},
		{80, [][]string{{"none: ", "41 ", "1 of 9"}, {"2 of 9", "217"}, {"OVERSOLD 419"}, {"none: "}, {""}}},
		{8, [][]string{{"none: "}, {"none: "}, {"none: "}, {"none: "}, {""}}},
	} {
		var b bytes.Buffer
		show := report.ShowProgress(&b, "none", "en", row.columns)
		for _, p := range steps {
			show(p)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if row.columns > 0 { // each line is over the one before
			lines = strings.Split(b.String(), "\r\x1b[K")[1:]
		}
		if len(lines) != len(row.lines) {
			t.Fatalf("%d columns: %q", row.columns, lines)
		}
		for i, line := range lines {
			if row.columns > 0 && words.Columns(line) >= row.columns {
				t.Errorf("%d columns: %q", row.columns, line)
			}
			mustHave(t, line, row.lines[i]...)
		}
	}
}
