package service

import (
	"errors"
	"sync"
)

// maxKnown is the largest number of SKUs in each generation of a knownSKUs. With 64 bytes per SKU, both generations
// need some 10 MB. If more SKUs are in demand, the rare ones cost a read.
const maxKnown = 50_000

// knownSKUs remembers SKUs that this instance has found in the store or has set. A request for a SKU that does not
// exist is refused before it acquires a lock, because lock servers store something for every key that was ever locked:
// a fence in Redis, a row in MySQL. The store checks again in the critical section.
//
// There are two generations. When the young one is full, it becomes the old one. A SKU of the old generation moves to
// the young one when it is requested. This limits the set without a list of recent use, which each request would have
// to update.
//
// The zero value is ready. It is safe for concurrent use.
type knownSKUs struct {
	mu         sync.RWMutex
	young, old map[SKU]struct{}
}

// check calls read if sku is not known, and remembers sku if read returns nil. The error is that of read.
func (k *knownSKUs) check(sku SKU, read func() error) error {
	if k.has(sku) {
		return nil
	}
	err := read()
	if err == nil {
		k.add(sku)
	}
	return err
}

func (k *knownSKUs) has(sku SKU) bool {
	k.mu.RLock()
	_, young := k.young[sku]
	_, old := k.old[sku]
	k.mu.RUnlock()
	if old && !young {
		k.add(sku)
	}
	return young || old
}

func (k *knownSKUs) add(sku SKU) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.young) >= maxKnown/2 {
		k.old, k.young = k.young, nil
	}
	if k.young == nil {
		k.young = make(map[SKU]struct{})
	}
	k.young[sku] = struct{}{}
}

func (k *knownSKUs) forget(sku SKU, err error) {
	if !errors.Is(err, ErrUnknownSKU) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.young, sku)
	delete(k.old, sku)
}
