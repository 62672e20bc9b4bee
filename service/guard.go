package service

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// GuardIdle is how long a stock must be unchanged before the guard of a strategy without exclusion ends.
const GuardIdle = 10 * time.Second

// An idleStock is a stock whose guard has refused a request: since when it is known to have this tag. It is used to end
// the guard of a Weak strategy, which excludes nobody, or only callers in its own process. Otherwise the first sale
// with such a strategy would keep out all other strategies until a person sets the stock. The guard of any other
// strategy lasts until a person sets the stock.
type idleStock struct {
	tag   string
	since time.Time
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
	idle, _ := s.idle.get(d.stock)
	if idle.tag != stock.Tag() {
		s.idle.put(d.stock, idleStock{stock.Tag(), time.Now()})
		return false
	}
	if time.Since(idle.since) < GuardIdle {
		return false
	}
	_, err = d.store.Store.Set(ctx, d.SKU, stock.Quantity, Condition{Match: []string{stock.Tag()}})
	return err == nil
}
