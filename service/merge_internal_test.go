package service

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A step of the store for a batch may take as long as one sale, and as long again in the queue in front of the store.
func TestABatchMayTakeTwiceWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := stockKey{}.step(t.Context(), 3*time.Second)
		defer cancel()
		if deadline, _ := ctx.Deadline(); time.Until(deadline) != 6*time.Second {
			t.Errorf("a batch may take %v, want 6s", time.Until(deadline))
		}
	})
}

// A store that makes no batches is told to all who wait, and not called.
func TestABatchInAStoreThatMakesNone(t *testing.T) {
	w := &merging{sale: &Sale{}}
	mergeBatch{w}.write(t.Context(), struct{ Store }{})
	if !errors.Is(w.err, errors.ErrUnsupported) {
		t.Errorf("error %v, want ErrUnsupported", w.err)
	}
}
