package lock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

func TestQueueIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q lock.Queue
		_ = q.Enter(t.Context(), "k", lock.Options{})
		var order []int
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				if err := q.Enter(t.Context(), "k", lock.Options{}); err != nil {
					t.Error(err)
				}
				order = append(order, i)
				q.Leave("k")
			})
			synctest.Wait()
		}
		q.Leave("k")
		all.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("order = %v", order)
		}
	})
}

func TestQueueLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q lock.Queue
		_ = q.Enter(t.Context(), "k", lock.Options{})
		if err := q.Enter(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("try once: %v, want ErrHeld", err)
		}
		if err := q.Enter(t.Context(), "other", lock.Options{TryOnce: true}); err != nil {
			t.Errorf("another key: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.Enter(ctx, "k", lock.Options{})
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("bounded wait: %v, want ErrHeld and DeadlineExceeded", err)
		}
		q.Leave("k")
		if err := q.Enter(t.Context(), "k", lock.Options{TryOnce: true}); err != nil {
			t.Errorf("the one who gave up still stands in the queue: %v", err)
		}
	})
}

// A turn that comes at the moment at which its waiter gives up must go to the next one.
func TestQueuePassesOnAnAbandonedTurn(t *testing.T) {
	for range 200 {
		var q lock.Queue
		_ = q.Enter(t.Context(), "k", lock.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if q.Enter(ctx, "k", lock.Options{}) == nil {
				q.Leave("k")
			}
		})
		both.Go(cancel)
		q.Leave("k")
		both.Wait()
		if err := q.Enter(t.Context(), "k", lock.Options{TryOnce: true}); err != nil {
			t.Fatal("the key is held by nobody")
		}
	}
}

// A queue tells who is inside and who waits, in their order, and nobody of a key that nobody wants.
func TestTheStateOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q lock.Queue
		if s := q.State("k"); s.Holder != nil || len(s.Waiters) > 0 {
			t.Errorf("of a free key: %+v", s)
		}
		ctx, leave := context.WithCancel(t.Context())
		if err := q.Enter(ctx, "k", lock.Options{Owner: "a"}); err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"b", "c"} {
			go func() { _ = q.Enter(ctx, "k", lock.Options{Owner: who}) }()
			synctest.Wait()
		}
		s := q.State("k")
		if s.Holder == nil || s.Holder.Who != "a" || len(s.Waiters) != 2 || s.Waiters[0].Who != "b" {
			t.Errorf("%+v, want a, then b and c", s)
		}
		leave()
		synctest.Wait()
	})
}
