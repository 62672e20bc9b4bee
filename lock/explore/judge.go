package explore

import (
	"strings"
	"testing"
)

// Holds fails the test unless the search visited every state and none broke a property.
func Holds(t testing.TB, r Result) {
	t.Helper()
	switch {
	case r.Violation != nil:
		t.Errorf("violated:\n%v", r.Violation)
	case !r.Whole:
		t.Error(r)
	}
}

// Finds fails the test unless the search found a violation whose reason contains want. It is for a model with a bug
// from PutBack. It logs the timeline.
func Finds(t testing.TB, r Result, want string) {
	t.Helper()
	switch v := r.Violation; {
	case v == nil:
		t.Error("was not found")
	case !strings.Contains(v.Why.Error(), want):
		t.Errorf("found something else than %q:\n%v", want, v)
	default:
		t.Logf("\n%v", v)
	}
}

// PutBack returns source with a bug: it replaces the text from, which must occur exactly once, by the text to.
func PutBack(t testing.TB, source, from, to string) string {
	t.Helper()
	if n := strings.Count(source, from); n != 1 {
		t.Fatalf("%q is there %d times, want once: this bug can no longer be put back so", from, n)
	}
	return strings.Replace(source, from, to, 1)
}
