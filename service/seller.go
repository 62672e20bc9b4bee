package service

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// A Seller sells: it fills in sale and leaves an order in store, or says why not. A strategy is a Seller with a name.
type Seller func(ctx context.Context, store Store, sale *Sale) error

// UnderLock reads, thinks and writes while it holds the SKU's lock. The race and all the locks differ by l alone.
//
// When the outcome of the write is not known, the lock is kept until its lease runs out: the write may still happen,
// and a sale in between would go by what it changes. That is so for locks without a fence, and with "fencing=off" in
// the lab. Where the write compares the version (see writeFenced) the lock is given back at once.
func UnderLock(l lock.Locker) Seller {
	return func(ctx context.Context, store Store, sale *Sale) error {
		return lock.Do(ctx, l, string(sale.SKU), sale.locking(ctx), func(ctx context.Context, fence lock.Fence) error {
			ctx, cancel := sale.enter(ctx, fence)
			defer cancel()
			defer sale.leave()
			ctx = Begin(ctx)
			return sale.nest(ctx, l, func(ctx context.Context) error { return readThinkWrite(ctx, store, sale) })
		})
	}
}

// InTransaction reads with the row locked, thinks, and writes, in one transaction of the store, which must be a
// Transactor.
func InTransaction(ctx context.Context, store Store, sale *Sale) error {
	transactor, err := Capability[Transactor](store)
	if err != nil {
		return err
	}
	wait := WaitOf(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The wait ends the transaction only as long as the row is not locked yet.
	locked := context.AfterFunc(wait, func() { cancel(context.Cause(wait)) })
	var most *time.Timer
	enter := func() {
		if locked() {
			most = time.AfterFunc(sale.bound(), func() { cancel(context.DeadlineExceeded) })
		}
	}
	err = transactor.Transact(ctx, sale.SKU, sale.Options.TryOnce, func(ctx context.Context, tx Store) error {
		defer sale.leave()
		return readThinkWrite(ctx, readHook{tx, enter}, sale)
	})
	if most != nil {
		most.Stop()
	}
	if err != nil {
		sale.written = false
		// The wait may have ended as the row was locked, and its end have come to the transaction after the COMMIT
		// was sent.
		if most == nil && wait.Err() != nil &&
			!errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, lock.ErrOverloaded) {
			return errors.Join(lock.ErrHeld, context.Cause(wait))
		}
	}
	return err
}

// readHook calls after once the row has been read, and so locked. A read that failed has locked nothing: the store
// may run the transaction again, and that wait has the same end as the first.
type readHook struct {
	Store
	after func()
}

func (h readHook) Read(ctx context.Context, sku SKU) (Stock, error) {
	stock, err := h.Store.Read(ctx, sku)
	if err == nil {
		h.after()
	}
	return stock, err
}

// Atomically lets the store, which must be a Deductor, do it all in one step. There is nothing to wait for and
// nothing to lose.
func Atomically(ctx context.Context, store Store, sale *Sale) error {
	deductor, err := Capability[Deductor](store)
	if err != nil {
		return err
	}
	ctx, cancel := sale.enterQueue(ctx)
	defer cancel()
	defer sale.leave()
	sale.tell(Writes)
	order, err := deductor.Deduct(ctx, sale.Order)
	if err == nil {
		sale.Order = order
		sale.wrote(ctx)
	}
	return overdue(err)
}

// readThinkWrite is the critical section that all this is about. Between the read and the write another instance
// may do the same.
func readThinkWrite(ctx context.Context, store Store, sale *Sale) error {
	stock, err := store.Read(ctx, sale.SKU)
	if err != nil {
		return err
	}
	sale.saw(stock)
	if stock.Quantity < sale.Quantity {
		return &SoldOutError{stock.Quantity}
	}
	if err := sale.think(ctx); err != nil {
		return err
	}
	sale.Remaining = stock.Quantity - sale.Quantity
	sale.tell(Writes)
	if err := writeFenced(Begin(ctx), store, sale.Order); err != nil {
		return err
	}
	sale.wrote(ctx)
	return nil
}

// writeFenced is Write, but where the order carries a fence the version that was read is compared too. The fence
// refuses the holder that writes too late. It cannot refuse one that was paused past its lease and wakes before the
// next holder has written: the store has not seen the larger fence yet. What that next holder has read is out of
// date then, and its blind write would lose the other's update. See
// docs/adr/0010-a-fenced-write-compares-the-version.md.
func writeFenced(ctx context.Context, store Store, o Order) error {
	s, compares := store.(Swapper)
	if o.Fence == 0 || !compares {
		return store.Write(ctx, o)
	}
	err := s.Swap(ctx, o)
	if errors.Is(err, ErrConflict) {
		return ErrOvertaken
	}
	return conditional(err)
}

// conditional marks the error of a swap whose outcome is not known: if it still happens it makes the next holder's
// swap change nothing, or is made to change nothing by that. So the lock is given back at once. See
// docs/adr/0016-an-unknown-outcome-keeps-the-lease.md.
func conditional(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return lock.Conditional(err)
	}
	return err
}
