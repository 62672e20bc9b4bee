package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// A Seller makes a sale: it fills in sale and writes its order to store, or returns an error. A strategy is a Seller
// with a name.
type Seller func(ctx context.Context, store Shop, sale *Sale) error

// UnderLock reads, thinks and writes while it holds the SKU's lock. All strategies with a lock differ only by l, and
// so does the race without one.
//
// If the outcome of the write is not known, the lock is kept until its lease runs out, because the write may still
// happen and would overwrite a sale in between. But if the write compares the version (see fencing), the lock is
// released at once. Locks without a fence write without a comparison, and so does the lab with "fencing=off".
func UnderLock(l lock.Locker) Seller {
	return func(ctx context.Context, store Shop, sale *Sale) error {
		wait, done := Waiting(ctx)
		defer done()
		o := sale.locking(wait)
		return lock.Do(ctx, l, string(sale.SKU), o, func(ctx context.Context, fence lock.Fence) error {
			ctx, cancel := sale.enter(ctx, fence, sale.bound())
			defer cancel()
			defer sale.leave()
			if err := sale.begin(ctx); err != nil {
				return err
			}
			if err := sale.nest(ctx, l, o); err != nil {
				return err
			}
			return readThinkWrite(Begin(ctx), fencing{store}, sale)
		})
	}
}

// InTransaction reads with the row locked, thinks, and writes, in one transaction of the store, which must be a
// Transactor.
func InTransaction(ctx context.Context, store Shop, sale *Sale) error {
	transactor, can := store.(Transactor)
	if !can {
		return fmt.Errorf("a %T has no transactions: %w", store, errors.ErrUnsupported)
	}
	wait, done := Waiting(ctx)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Once the row is locked, the end of the wait no longer ends the transaction.
	stopWaiting := context.AfterFunc(wait, func() { cancel(context.Cause(wait)) })
	locked, stopBound := false, func() bool { return false }
	enter := func() {
		inTime := stopWaiting()
		if inTime {
			locked = true
			stopBound = time.AfterFunc(sale.bound(), func() { cancel(context.DeadlineExceeded) }).Stop
		}
	}
	err := transactor.Transact(ctx, sale.SKU, sale.TryOnce, func(ctx context.Context, tx Store) error {
		defer sale.leave()
		return readThinkWrite(ctx, readHook{tx, enter}, sale)
	})
	stopBound()
	if err != nil {
		sale.written = false
		// The wait may have ended while the row was being locked. If COMMIT had been sent by then, the outcome is
		// unknown.
		if !locked && wait.Err() != nil &&
			!errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, lock.ErrOverloaded) {
			return errors.Join(lock.ErrHeld, context.Cause(wait))
		}
	}
	return err
}

// readHook calls after when the row has been read and so is locked. After a failed read nothing is locked: the store
// may repeat the transaction, which the same wait limits.
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

// Atomically lets the store read and write in one step. It needs no lock.
func Atomically(ctx context.Context, store Shop, sale *Sale) error {
	ctx, cancel := sale.enter(ctx, lock.NoFence, sale.queueBound())
	defer cancel()
	defer sale.leave()
	if err := sale.begin(ctx); err != nil {
		return err
	}
	sale.tell(Writes)
	order, err := store.Deduct(ctx, sale.Order)
	if err == nil {
		sale.Order = order
		sale.wrote(ctx)
	}
	return overdue(err)
}

// readThinkWrite is the critical section. Without a lock, another instance may be in it at the same time. If ctx has
// ended, because the lease was lost or the time is over, the store refuses the call.
func readThinkWrite(ctx context.Context, store Store, sale *Sale) error {
	stock, err := store.Read(ctx, sale.SKU)
	if err != nil {
		return err
	}
	sale.saw(stock)
	if stock.Quantity < sale.Quantity {
		return &SoldOutError{stock.Quantity}
	}
	// A service with more rules decides here, by prices, limits or credit.
	sale.Remaining = stock.Quantity - sale.Quantity
	if err := sale.think(ctx); err != nil {
		return err
	}
	if err := store.Write(Begin(ctx), sale.Order); err != nil {
		return err
	}
	sale.wrote(ctx)
	return nil
}

// fencing is a Store whose Write also compares the version that was read, if the order has a fence. The fence alone is
// not enough: a holder that was paused past its lease may write before the next holder does, and the store has not
// seen the larger fence by then. The next holder has already read, so its blind write would lose that update. See
// docs/adr/0005-a-fenced-write-compares-the-version.md.
type fencing struct{ Shop }

func (f fencing) Write(ctx context.Context, o Order) error {
	if o.Fence == 0 {
		return f.Shop.Write(ctx, o)
	}
	err := f.Swap(ctx, o)
	if errors.Is(err, ErrConflict) {
		return ErrOvertaken
	}
	return conditional(err)
}

// conditional marks an unknown outcome of a swap, so that the lock is released at once. That is safe: either this
// swap or the next holder's changes nothing, because both compare the version. See
// docs/adr/0009-an-unknown-outcome-keeps-the-lease.md.
func conditional(err error) error {
	if errors.Is(err, ErrOutcomeUnknown) {
		return lock.Conditional(err)
	}
	return err
}
