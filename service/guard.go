package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"example.com/stock/lock"
)

// GuardIdle is how long a stock must be unchanged before the guard of a strategy without exclusion ends.
const GuardIdle = 10 * time.Second

// LedgerGuard is the guard of a SKU that an earlier version sold by a ledger of orders. No strategy may sell it, and it
// is not set again, which would lose the ledger.
const LedgerGuard = "orders"

// idle remembers how long stocks are unchanged, for stocks whose guard has refused a request. It is used to end the
// guard of a Weak strategy, which excludes nobody, or only callers in its own process. Otherwise the first sale with
// such a strategy would keep out all other strategies until a person sets the stock. The guard of any other strategy
// lasts until a person sets the stock.
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

// maxIdle limits the memory. If a stock is forgotten, its guard lasts longer.
const maxIdle = 1000

// since returns the earliest time at which the stock is known to have had this tag.
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

// endGuard ends the guard that refused a sale, if the guard may end, and reports whether it did. It sets the stock to
// the quantity that is left, if nothing was written since that quantity was read. This starts a new epoch, so a sale
// that is still under way under the old guard is refused with ErrStockReset.
//
// After a refusal it takes one read, and a write if the guard ends.
func (s *Service) endGuard(ctx context.Context, d *deduction, refused error) bool {
	guarded, ok := errors.AsType[*GuardError](refused)
	if !ok || !s.Strategies[guarded.Guard].Weak || errors.Is(refused, lock.ErrLost) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	stock, err := d.store.Store.Read(ctx, d.SKU)
	if err != nil || stock.Guard != guarded.Guard {
		return false
	}
	if time.Since(s.idle.since(idleKey{d.Store, d.SKU}, stock.Tag())) < GuardIdle {
		return false
	}
	_, err = d.store.Store.SetIf(ctx, d.SKU, stock.Quantity, Condition{Match: []string{stock.Tag()}})
	return err == nil
}
