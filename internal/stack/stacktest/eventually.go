package stacktest

import (
	"testing"
	"time"
)

// patience is the least that [Eventually] waits.
const patience = time.Minute

// Eventually polls until the condition holds, or fails with the last value. The limit is a bound on patience, and never
// what is tested: on a busy computer all takes longer, so a limit of less than a minute is taken as a minute.
func Eventually(t testing.TB, limit time.Duration, what string, so func() (bool, string)) {
	t.Helper()
	limit = max(limit, patience)
	began, seen := time.Now(), ""
	for time.Since(began) < limit {
		var ok bool
		if ok, seen = so(); ok {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	t.Errorf("not within %v: %s (last: %s)", limit, what, seen)
}
