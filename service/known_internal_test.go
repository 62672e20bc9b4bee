package service

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
)

// However many SKUs there are, no more than maxKnown are remembered, and those in demand are not forgotten.
func TestKnownSetIsBounded(t *testing.T) {
	t.Parallel()
	var k knownSKUs
	k.add("hot")
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for n := range maxKnown {
				k.add(SKU(fmt.Sprint(worker, "-", n)))
				if n%1000 == 0 && !k.has("hot") {
					t.Errorf("hot is forgotten after %d others", n)
					return
				}
			}
		})
	}
	all.Wait()
	if n := len(k.young) + len(k.old); n > maxKnown {
		t.Errorf("%d are remembered, want %d at most", n, maxKnown)
	}
	k.forget("hot", errors.New("the store is down"))
	if !k.has("hot") {
		t.Error("hot is forgotten after an error that says nothing of it")
	}
	if k.forget("hot", ErrUnknownSKU); k.has("hot") {
		t.Error("hot is remembered after it vanished")
	}
}

// The SKUs that are known have a bound: when the young generation is full, the old one is forgotten. One of the old
// that is asked for becomes young again.
func TestGenerationsOfKnownSKUs(t *testing.T) {
	var k knownSKUs
	const half = maxKnown / 2
	name := func(i int) SKU { return SKU(strconv.Itoa(i)) }
	if k.has(name(0)) {
		t.Error("known before it was added")
	}
	for i := range half {
		k.add(name(i))
	}
	if len(k.young) != half || len(k.old) != 0 {
		t.Errorf("%d young, %d old; want %d young", len(k.young), len(k.old), half)
	}
	if !k.has(name(0)) || !k.has(name(half-1)) || k.has(name(half)) {
		t.Error("those that were added are known, and no others")
	}
	k.add(name(half))
	if len(k.young) != 1 || len(k.old) != half {
		t.Errorf("one more: %d young, %d old; want 1 and %d", len(k.young), len(k.old), half)
	}
	if !k.has(name(0)) || !k.has(name(half)) || len(k.young) != 2 {
		t.Errorf("one of the old that was asked for: %d young, want 2", len(k.young))
	}
	for i := range half - 1 {
		k.add(name(half + 1 + i))
	}
	if !k.has(name(0)) || k.has(name(1)) || !k.has(name(maxKnown-1)) || len(k.young)+len(k.old) > maxKnown {
		t.Errorf("two generations later: %d young, %d old", len(k.young), len(k.old))
	}
}

func BenchmarkKnownSet(b *testing.B) {
	var k knownSKUs
	k.add("stock")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !k.has("stock") {
				b.Fail()
			}
		}
	})
}
