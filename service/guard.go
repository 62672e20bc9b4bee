package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"example.com/stock/lock"
)

// GuardIdle is how long a stock must not have been written to for the guard of a strategy without exclusion to end.
const GuardIdle = 10 * time.Second

// idle remembers when stocks were first seen as they are, by a request that their guard refused. It ends the guards of
// strategies that exclude nobody, or this process alone: anybody may make the first sale with one, and it would keep
// all others out until a person sets the stock. The guard of a strategy that excludes others everywhere is theirs to
// keep.
type idle struct {
	mu   sync.Mutex
	seen map[idleKey]idleStock
}

type idleKey struct {
	store string
	sku   SKU
}

type idleStock struct {
	tag   string
	since time.Time
}

// maxIdle bounds the memory. To be forgotten makes a guard last longer, and no more.
const maxIdle = 1000

// since returns since when the stock is known to have had that tag.
func (i *idle) since(key idleKey, tag string) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known, ok := i.seen[key]; ok && known.tag == tag {
		return known.since
	}
	if i.seen == nil || len(i.seen) >= maxIdle {
		i.seen = make(map[idleKey]idleStock)
	}
	now := time.Now()
	i.seen[key] = idleStock{tag, now}
	return now
}

// endGuard ends the guard that refused a sale, if it may end, and reports whether it did. The stock is set anew at what
// is left, if nobody has written since it was read. So a sale of the old guard that is under way is refused with
// ErrStockReset, and its orders so far belong to the epoch before.
//
// It costs nothing unless a sale was refused, and then a read; once, two writes.
func (s *Service) endGuard(ctx context.Context, store string, sku SKU, refused error) bool {
	guarded, ok := errors.AsType[*GuardError](refused)
	if !ok || !s.Strategies[guarded.Guard].Weak || errors.Is(refused, lock.ErrLost) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	stock, err := s.Stores[store].Store.Read(ctx, sku)
	if err != nil || stock.Guard != guarded.Guard {
		return false
	}
	if time.Since(s.idle.since(idleKey{store, sku}, stock.Tag())) < s.GuardIdle {
		return false
	}
	_, err = s.Stores[store].Store.SetIf(ctx, sku, stock.Quantity, Condition{Match: []string{stock.Tag()}})
	return err == nil
}
