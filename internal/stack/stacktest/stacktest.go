// Package stacktest gives tests the stock program, and stacks with instances of it, never mocks.
package stacktest

import (
	"testing"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/servertest"
)

// Start starts a stack for this test alone. The end of the test stops it.
func Start(t testing.TB, o stack.Options) *stack.Stack {
	t.Helper()
	s, err := stack.Start(t.Context(), o)
	return servertest.StopAtEnd(t, s, err)
}
