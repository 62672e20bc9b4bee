package service

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// However many SKUs there are, no more than maxKnown are remembered, and those in demand are not forgotten.
func TestKnownSetIsBounded(t *testing.T) {
	t.Parallel()
	var k KnownSKUs
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

func BenchmarkKnownSet(b *testing.B) {
	var k KnownSKUs
	k.add("stock")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !k.has("stock") {
				b.Fail()
			}
		}
	})
}
