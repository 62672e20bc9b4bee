package lock

import (
	"context"
	"errors"
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
				list = append(list, k.join(t.Context(), Options{Owner: fmt.Sprint(n)}))
			case len(list) > 0 && draw.IntN(2) == 0:
				i := draw.IntN(len(list))
				if !k.leave(list[i]) || k.leave(list[i]) {
					t.Fatal("a waiter leaves once")
				}
				list = slices.Delete(list, i, i+1)
			default:
				if passed := k.pass(grant{}); passed != (len(list) > 0) {
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

// The queue's deadline is the latest of those who have waited since it was last empty.
func TestTheDeadlineOfAKeyQueue(t *testing.T) {
	var queues keyQueues
	s := queues.of("k")
	defer s.mu.Unlock()
	k := s.open("k")
	now := time.Now()
	join := func(in time.Duration) *waiter {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(in))
		t.Cleanup(cancel)
		return k.join(ctx, Options{})
	}
	long, short := join(time.Minute), join(time.Second)
	if k.unlimited || !k.until.Equal(now.Add(time.Minute)) {
		t.Errorf("a minute and a second: until %v", k.until.Sub(now))
	}
	unlimited := k.join(t.Context(), Options{})
	if !k.unlimited {
		t.Error("one of them waits without a limit")
	}
	for _, w := range []*waiter{long, short, unlimited} {
		k.leave(w)
	}
	join(time.Second)
	if k.unlimited || !k.until.Equal(now.Add(time.Second)) {
		t.Errorf("when all others have gone: until %v, endless %v", k.until.Sub(now), k.unlimited)
	}
}

// Who is told of a failure holds nothing.
func TestAFailureMakesNoHolder(t *testing.T) {
	var queues keyQueues
	s := queues.of("k")
	defer s.mu.Unlock()
	k := s.open("k")
	k.holder = Contender{Who: "the holder"}
	k.join(t.Context(), Options{Owner: "unlucky"})
	if !k.pass(grant{err: errors.New("down")}) || k.holder.Who != "the holder" {
		t.Errorf("the holder is %q", k.holder.Who)
	}
}

// A loss that free found is told once: not as the loss of a loss.
func TestALossIsToldOnce(t *testing.T) {
	told := &LostError{"k", ErrExpired}
	l, _ := NewLease("k", NoFence, func(context.Context) error { return told })
	if err := l.Release(); err != error(told) {
		t.Errorf("%v, want %v as it is", err, told)
	}
}

// A try that failed leaves nothing behind: the next one asks again.
func TestHandOverAfterATryThatFailed(t *testing.T) {
	inner := &only{}
	h := HandOver(inner, Bound{})
	elsewhere, err := inner.Acquire(t.Context(), "k", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Acquire(t.Context(), "k", Options{TryOnce: true}); !errors.Is(err, ErrHeld) {
		t.Errorf("while it is held elsewhere: %v", err)
	}
	_ = elsewhere.Release()
	l, err := h.Acquire(t.Context(), "k", Options{TryOnce: true})
	if err != nil {
		t.Fatalf("when it is free: %v", err)
	}
	_ = l.Release()
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
