package order

import (
	"strconv"
	"testing"

	"example.com/stock/service"
)

// The SKUs that are known have a bound: one more, and all are forgotten but that.
func TestKnownSKUsAreBounded(t *testing.T) {
	var k skus
	name := func(i int) service.SKU { return service.SKU(strconv.Itoa(i)) }
	if k.has(name(0)) {
		t.Error("known before it was added")
	}
	for i := range maxSKUs {
		k.add(name(i))
	}
	if !k.has(name(0)) || !k.has(name(maxSKUs-1)) || k.has(name(maxSKUs)) {
		t.Error("those that were added are known, and no others")
	}
	k.add(name(maxSKUs))
	if k.has(name(0)) || !k.has(name(maxSKUs)) || len(k.set) != 1 {
		t.Errorf("one more: %d are known", len(k.set))
	}
}
