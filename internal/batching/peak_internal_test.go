package batching

import (
	"runtime"
	"sync"
	"testing"
)

// After a moment with many keys the map is made anew, because Go's maps never give memory back. A small one is kept:
// making it again for each value would cost more than it holds.
func TestAMapOfManyKeysIsMadeAnew(t *testing.T) {
	for _, row := range []struct{ keys, peak int }{{maxIdleKeys, maxIdleKeys}, {maxIdleKeys + 1, 0}} {
		var here, all sync.WaitGroup
		here.Add(row.keys)
		qs := New(1, func(q *Queue[int, int]) {
			q.Cut(1)
			here.Done()
			here.Wait() // all keys are open
		})
		for key := range row.keys {
			all.Go(func() {
				if _, err := qs.Do(t.Context(), key, 0); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for qs.Len() > 0 { // the callers have their replies, the queues may not be closed yet
			runtime.Gosched()
		}
		if qs.peak != row.peak {
			t.Errorf("after %d keys the peak is %d, want %d", row.keys, qs.peak, row.peak)
		}
	}
}
