package service

import (
	"testing"
	"testing/synctest"
	"time"
)

// A step of the store for a batch may take as long as one sale, and as long again in the queue in front of the store.
func TestABatchMayTakeTwiceWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := stockKey{}.step(3 * time.Second)
		defer cancel()
		if deadline, _ := ctx.Deadline(); time.Until(deadline) != 6*time.Second {
			t.Errorf("a batch may take %v, want 6s", time.Until(deadline))
		}
	})
}
