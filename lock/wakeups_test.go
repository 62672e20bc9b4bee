package lock_test

import (
	"context"
	"testing"

	"example.com/stock/lock"
)

// roused is a lock whose waiters are woken three times.
type roused struct{ rented }

func (r *roused) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	for range 3 {
		o.Woken()
	}
	return r.rented.Acquire(ctx, key, o)
}

// Wake-ups reach everybody who asked for them, through Observe and Do. A zero Options has nobody to tell.
func TestWakeUpsAreCountedAllTheWayUp(t *testing.T) {
	var metric, mine int
	l := lock.Observe(&roused{}, lock.Events{Woken: func() { metric++ }})
	work := func(context.Context, lock.Fence) error { return nil }
	if err := lock.Do(t.Context(), l, "k", lock.Options{OnWake: func() { mine++ }}, work); err != nil {
		t.Fatal(err)
	}
	if metric != 3 || mine != 3 {
		t.Errorf("observed %d, counted %d; want 3 each", metric, mine)
	}
	if err := lock.Do(t.Context(), l, "k", lock.Options{}, work); err != nil {
		t.Fatal(err)
	}
	if metric != 6 || mine != 3 {
		t.Errorf("without a callback: observed %d, counted %d; want 6 and 3", metric, mine)
	}
}
