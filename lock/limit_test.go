package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// Over the limit nobody waits, whatever the key and the lock; who tries once, holds or has given up does not count.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := lock.NewLimit(3)
		one, other := limit.Around(&rented{}), limit.Around(lock.HandOver(&remote{}, lock.Bound{}))
		a, err := one.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		b, err := other.Acquire(t.Context(), "k")
		if err != nil {
			t.Fatal(err)
		}
		wait, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		for _, l := range []lock.Locker{one, other, other} {
			all.Go(func() {
				if _, err := l.Acquire(wait, "k"); !errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrOverloaded) {
					t.Errorf("a waiter within the limit: %v", err)
				}
			})
		}
		synctest.Wait()
		if limit.Waiting() != 3 {
			t.Errorf("%d wait, want 3", limit.Waiting())
		}
		for _, l := range []lock.Locker{one, other} {
			for _, key := range []string{"k", "another key"} {
				if _, err := l.Acquire(wait, key); !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrHeld) {
					t.Errorf("one too many for %q: %v, want ErrOverloaded", key, err)
				}
			}
			if _, err := l.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("who tries once: %v, want ErrHeld", err)
			}
		}
		all.Wait()
		_, _ = a.Release(), b.Release()
		hold(t, other, func(*lock.Lease) {})
		if limit.Waiting() != 0 {
			t.Errorf("%d wait at the end", limit.Waiting())
		}
	})
}
