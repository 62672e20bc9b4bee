package stacktest

import (
	"testing"
	"time"
)

// Eventually polls until the condition holds, or fails with the last value.
func Eventually(t testing.TB, limit time.Duration, what string, so func() (bool, string)) {
	t.Helper()
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
