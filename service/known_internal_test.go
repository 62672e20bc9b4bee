package service

import (
	"fmt"
	"sync"
	"testing"
)

// However many SKUs there are, no more than maxKnown are remembered, and those in demand are not forgotten.
func TestKnownSetIsBounded(t *testing.T) {
	t.Parallel()
	var k knownSet
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
	if k.remove("hot"); k.has("hot") {
		t.Error("hot is remembered after it was removed")
	}
}

func BenchmarkKnownSet(b *testing.B) {
	var k knownSet
	k.add("stock")
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !k.has("stock") {
				b.Fail()
			}
		}
	})
}
