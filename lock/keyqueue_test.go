package lock

import (
	"fmt"
	"testing"
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
