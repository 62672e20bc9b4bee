package service

import (
	"context"
	"sync"

	"example.com/stock/lock"
)

// A Replayer is a store that keeps the Key of each order. It writes the key in the same step as the order, and
// refuses a second order with the same Key with ErrKeyTaken. So two requests with one key make one order, whatever
// locks they hold.
type Replayer interface {
	// Replay returns the order of sku that was written with the key; found is false if there is none. If the
	// fingerprint differs, it fails with ErrKeyReused. A store that keeps the keys of each SKU apart may not notice
	// that the key was used for another SKU.
	Replay(ctx context.Context, sku SKU, key Key) (o Order, found bool, err error)
}

// underKeys are the keys of requests under way.
type underKeys struct {
	mu   sync.Mutex
	keys map[string]struct{}
}

// enter returns false if a request with the key is under way.
func (u *underKeys) enter(key string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, there := u.keys[key]; there {
		return false
	}
	if u.keys == nil {
		u.keys = make(map[string]struct{})
	}
	u.keys[key] = struct{}{}
	return true
}

func (u *underKeys) leave(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.keys, key)
}

// replay looks for the order that was written with the key of req.
func (s *Service) replay(ctx context.Context, req Request) (Receipt, bool, error) {
	strategy, known := s.Strategies[req.Strategy]
	if !known {
		return Receipt{}, false, nil
	}
	config, err := s.storeConfig(strategy, &req)
	if err != nil || config.Needs.Err() != nil {
		return Receipt{}, false, err
	}
	replayer, err := Capability[Replayer](config.Store)
	if err != nil {
		return Receipt{}, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	o, found, err := replayer.Replay(Begin(ctx), req.SKU, req.Key)
	if err != nil || !found {
		return Receipt{}, false, err
	}
	return Receipt{
		Order: o, Store: req.Store, HolderFence: lock.Fence(o.Fence), Replayed: true,
		AcquiredAt: o.CreatedAt, ReadAt: o.CreatedAt, WrittenAt: o.CreatedAt, ReleasedAt: o.CreatedAt, Tries: 1,
	}, true, nil
}
