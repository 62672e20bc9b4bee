package servertest

import (
	"testing"
	"time"
)

// patience is the shortest limit of [Eventually].
const patience = 2 * time.Minute

// Eventually polls until the condition holds, and fails with the last value after limit. Tests must not depend on the
// limit: it is at least two minutes, because a busy computer is slow.
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
