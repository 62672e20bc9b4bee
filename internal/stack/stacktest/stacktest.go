// Package stacktest gives tests the stock program, and stacks with instances of it, never mocks.
package stacktest

import (
	"testing"

	"example.com/stock/internal/stack"
)

// Start starts a stack for this test alone. The end of the test stops it.
func Start(t testing.TB, o stack.Options) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}
