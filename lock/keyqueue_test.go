package lock

import (
	"fmt"
	"testing"
)

// After a moment with many keys the map is made anew, because Go's maps never give memory back.
func TestAMapOfManyKeysIsMadeAnew(t *testing.T) {
	for _, keys := range []int{maxIdleKeys, maxIdleKeys + 1} {
		var s shard
		var open []*keyQueue
		for i := range keys {
			open = append(open, s.open(fmt.Sprint(i)))
		}
		for i, k := range open {
			if len(s.keys) != keys-i {
				t.Fatalf("%d keys, want %d", len(s.keys), keys-i)
			}
			k.close()
		}
		if anew := s.keys == nil; anew != (keys > maxIdleKeys) || anew != (s.peak == 0) {
			t.Errorf("after %d keys, made anew: %v, peak %d", keys, anew, s.peak)
		}
	}
}
