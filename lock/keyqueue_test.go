package lock

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A keyQueue does what a slice would do, only quicker: whoever comes, leaves from the front, the middle or the end,
// or is served.
func TestAKeyQueueIsASlice(t *testing.T) {
	var queues keyQueues
	s := queues.of("k")
	defer s.mu.Unlock()
	for seed := range uint64(200) {
		draw := rand.New(rand.NewPCG(seed, 1))
		k := s.open("k")
		var list []*waiter
		for n := range 40 {
			switch {
			case draw.IntN(3) > 0:
				list = append(list, k.join(Options{Owner: fmt.Sprint(n)}))
			case len(list) > 0 && draw.IntN(2) == 0:
				i := draw.IntN(len(list))
				if !k.leave(list[i]) || k.leave(list[i]) {
					t.Fatal("a waiter leaves once")
				}
				list = slices.Delete(list, i, i+1)
			default:
				if passed := k.pass(grant{}, time.Now()); passed != (len(list) > 0) {
					t.Fatalf("passed %v to %d waiters", passed, len(list))
				}
				if len(list) > 0 {
					if len(list[0].granted) != 1 || k.leave(list[0]) || k.holder.Who != list[0].Who {
						t.Fatal("the one who came first is not the holder")
					}
					list = list[1:]
				}
			}
			got := k.waiters()
			same := slices.EqualFunc(got, list, func(c Contender, w *waiter) bool { return c.Who == w.Who })
			if !same || k.waiting != len(list) {
				t.Fatalf("seed %d: %v wait, %d by the count, want %d", seed, got, k.waiting, len(list))
			}
		}
		k.close()
	}
}

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
