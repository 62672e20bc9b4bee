package lock_test

import (
	"testing"

	"example.com/stock/lock"
)

// BenchmarkHandOverAlone is what HandOver adds to a lock that costs nothing and that nobody else wants.
func BenchmarkHandOverAlone(b *testing.B) {
	l := lock.HandOver(&remote{}, lock.Bound{})
	for b.Loop() {
		lease, err := l.Acquire(b.Context(), "k", lock.Options{})
		if err != nil {
			b.Fatal(err)
		}
		_ = lease.Release()
	}
}
