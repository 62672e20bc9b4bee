package report_test

import (
	"bytes"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

func TestProgress(t *testing.T) {
	steps := []loadtest.Progress{
		{
			Done:     1,
			Total:    9,
			Elapsed:  time.Second,
			Rate:     1,
			Outcomes: map[loadtest.Outcome]int{loadtest.Accepted: 1},
			P50MS:    1,
			P99MS:    12,
			SoldRate: 41.2,
			WarmUp:   true,
		},
		{
			Done:     2,
			Total:    9,
			Elapsed:  2 * time.Second,
			Rate:     1,
			Outcomes: map[loadtest.Outcome]int{loadtest.Busy: 2},
			P50MS:    1,
			P99MS:    12,
			Left:     7 * time.Second,
		},
		{
			Done:     3,
			Total:    0,
			Elapsed:  3 * time.Second,
			Rate:     1,
			Outcomes: map[loadtest.Outcome]int{loadtest.SoldOut: 3},
			Oversold: 4,
			P50MS:    1,
			P99MS:    12,
		},
		{Done: 3, Elapsed: 5 * time.Second, Outcomes: map[loadtest.Outcome]int{}, Interrupted: true, Left: time.Second},
		{
			Done:        9,
			Total:       9,
			Elapsed:     5 * time.Second,
			Rate:        3,
			Last:        true,
			Interrupted: true,
			Outcomes:    map[loadtest.Outcome]int{loadtest.Failed: 9},
			Late:        2,
			Dropped:     3,
		},
	}
	for _, row := range []struct {
		columns int
		want    string
	}{
		{0, "none: 0 sold/s, 2 of 9, 1/s, p50 1.00ms p99 12.0ms, accepted 0, busy 2, 7s left, sold out 0\n" +
			"none: interrupted, waiting for replies, 0 sold/s, 3, 0/s, p50 0.00ms p99 0.00ms, accepted 0, busy 0, " +
			"sold out 0\n" +
			"none: 0 sold/s, 9 of 9, 3/s, p50 0.00ms p99 0.00ms, accepted 0, busy 0, sold out 0, failed or unknown " +
			"9, late 2, dropped 3\n"},
		{80, "\r\x1b[Knone: warm-up, 41 sold/s, 1 of 9, 1/s, p50 1.00ms p99 12.0ms, accepted 1" +
			"\r\x1b[Knone: 0 sold/s, 2 of 9, 1/s, p50 1.00ms p99 12.0ms, accepted 0, busy 2, 7s left" +
			"\r\x1b[Knone: 0 sold/s, 3, 1/s, p50 1.00ms p99 12.0ms, accepted 0, busy 0, OVERSOLD 4" +
			"\r\x1b[Knone: interrupted, waiting for replies, 0 sold/s, 3, 0/s, p50 0.00ms p99 0.00ms\r\x1b[K"},
		{8, "\r\x1b[Knone: w\r\x1b[Knone: 0\r\x1b[Knone: 0\r\x1b[Knone: i\r\x1b[K"},
	} {
		var b bytes.Buffer
		show := report.ShowProgress(&b, "none", "en", row.columns)
		for _, p := range steps {
			show(p)
		}
		if b.String() != row.want {
			t.Errorf("%d columns: got %q, want %q", row.columns, b.String(), row.want)
		}
	}
}
