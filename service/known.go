package service

import (
	"context"
	"errors"
	"sync"
)

// maxKnown is how many SKUs of a store an instance remembers, of 64 bytes at most: some 10 MB at worst. A shop with
// more of them in demand pays a read for those that are asked for seldom.
const maxKnown = 50_000

// A knownSet remembers SKUs that a store had when it was last read or set here. It keeps requests for SKUs that do not
// exist away from the locks, whose servers keep something for every key that was ever locked: a fence in Redis, a row
// in MySQL. It is that filter and nothing more: whether an SKU exists is the store's to say, in the critical section,
// also if it has vanished since.
//
// There are two generations: the young becomes the old one when it is full, and what is asked for is young again. That
// bounds the set without a list to maintain for every request.
type knownSet struct {
	mu         sync.RWMutex
	young, old map[SKU]struct{}
}

func (k *knownSet) has(sku SKU) bool {
	k.mu.RLock()
	_, young := k.young[sku]
	_, old := k.old[sku]
	k.mu.RUnlock()
	if old && !young {
		k.add(sku)
	}
	return young || old
}

func (k *knownSet) add(sku SKU) {
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

func (k *knownSet) remove(sku SKU) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.young, sku)
	delete(k.old, sku)
}

// admit fails with ErrUnknownSKU if the store does not have the SKU. It costs a read of the store the first time that
// this instance hears of an SKU, and none for those that it has seen there.
func (s *Service) admit(ctx context.Context, config StoreConfig, store string, sku SKU) error {
	if s.known[store].has(sku) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	if _, err := config.Store.Read(ctx, sku); err != nil {
		return err
	}
	s.known[store].add(sku)
	return nil
}

// unknown forgets an SKU if err says that it is unknown.
func (s *Service) unknown(store string, sku SKU, err error) {
	if errors.Is(err, ErrUnknownSKU) {
		s.known[store].remove(sku)
	}
}
