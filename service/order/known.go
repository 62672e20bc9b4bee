package order

import (
	"sync"

	"example.com/stock/service"
)

// skus remembers SKUs that the store had once. It keeps requests for SKUs that do not exist away from the locks, and is
// no more than that filter: whether a SKU exists is the store's to say, in the step.
type skus struct {
	mu  sync.Mutex
	set map[service.SKU]struct{}
}

// maxSKUs bounds the memory: some 5 MB. A full set is forgotten, and costs a read for each SKU that is asked for again.
const maxSKUs = 50_000

func (k *skus) has(sku service.SKU) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.set[sku]
	return ok
}

func (k *skus) add(sku service.SKU) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil || len(k.set) >= maxSKUs {
		k.set = make(map[service.SKU]struct{})
	}
	k.set[sku] = struct{}{}
}
