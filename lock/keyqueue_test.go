package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
)

// After a moment with many keys the map is made anew, because Go's maps never give memory back.
func TestAMapOfManyKeysIsMadeAnew(t *testing.T) {
	for _, keys := range []int{maxIdleKeys, maxIdleKeys + 1} {
		var q keyQueues
		var open []*keyQueue
		for i := range keys {
			open = append(open, q.open(fmt.Sprint(i)))
		}
		for i, k := range open {
			if len(q.keys) != keys-i {
				t.Fatalf("%d keys, want %d", len(q.keys), keys-i)
			}
			q.close(k)
		}
		if anew := q.keys == nil; anew != (keys > maxIdleKeys) || anew != (q.peak == 0) {
			t.Errorf("after %d keys, made anew: %v, peak %d", keys, anew, q.peak)
		}
	}
}

// Random timing meets this moment in one of thousands of tries: here it is made.
func TestQueuePassesOnATurnThatComesAsTheWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Queue
		_ = q.Enter(t.Context(), "k", Options{})
		ctx, giveUp := context.WithCancel(t.Context())
		told := make(chan error, 1)
		go func() { told <- q.Enter(ctx, "k", Options{}) }()
		synctest.Wait()
		comeTooLate(&q.keyQueues, "k", giveUp, toHold)
		if err := <-told; !errors.Is(err, ErrHeld) || !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter was told %v", err)
		}
		if err := q.Enter(t.Context(), "k", Options{TryOnce: true}); err != nil {
			t.Errorf("nobody holds the key: %v", err)
		}
	})
}
