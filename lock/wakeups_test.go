package lock_test

import (
	"context"
	"testing"

	"example.com/stock/lock"
)

// roused is a lock whose waiters are woken three times.
type roused struct{ rented }

func (r *roused) Acquire(ctx context.Context, key string) (*lock.Lease, error) {
	for range 3 {
		lock.Woken(ctx)
	}
	return r.rented.Acquire(ctx, key)
}

// Wake-ups reach everybody who asked for them, through Observe and the wait of Do.
func TestWakeUpsAreCountedAllTheWayUp(t *testing.T) {
	var metric, mine, outer int
	l := lock.Observe(&roused{}, lock.Events{Woken: func() { metric++ }})
	ctx := lock.OnWake(t.Context(), func() { outer++ })
	ctx = lock.WithWait(t.Context(), lock.OnWake(ctx, func() { mine++ }))
	if err := lock.Do(ctx, l, "k", func(context.Context, lock.Fence) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if metric != 3 || mine != 3 || outer != 3 {
		t.Errorf("observed %d, counted %d and %d; want 3 each", metric, mine, outer)
	}
	lock.Woken(t.Context()) // nobody counts
}
