package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/stock/lock"
)

// MergedUnderLock is UnderLock for all who wait in this process: one turn of the SKU's lock reads once, thinks once,
// and writes the orders of a batch in one step of the store, which must be a [Batcher]. A lock whose turn takes a
// millisecond is not slow then; one turn for each sale is.
//
// What is said of the batches of [Merged] holds here, too, but for this:
//
//   - The batch is cut when the lock is held. So it is what came while the last one was sold, and while the lock was
//     waited for. Until then a sale can leave, and fails as by a lock. The wait at the lock's server is the queue's: it
//     goes on when the first in the queue leaves, and ends when nobody waits.
//   - The write is one of read, think, write: it is refused as a whole if the version is not the one that was read, or
//     the fence is smaller than one that the stock has seen. All sales of a batch have the turn's fence.
//   - The time to think is the batch's. In the lab a batch thinks for as long as the longest "hold" of its sales asks,
//     and stops at the pause points of each.
//   - A sale that tries once, or that runs in the lab without the fence, deaf to the loss of the lease, or nested, asks
//     the lock for itself, as with [UnderLock].
//
// Round trips: those of l, and a Read and a Batch, for each batch.
func MergedUnderLock(l lock.Locker, o MergeOptions) Seller {
	turn := func(m *merger, q *mergeQueue) { m.underLock(l, q) }
	m := newMerger(o, turn, func(sale *Sale, cause error) error {
		return errors.Join(&lock.HeldError{Key: string(sale.SKU)}, cause)
	})
	single := UnderLock(l)
	return func(ctx context.Context, store Store, sale *Sale) error {
		if sale.Options.TryOnce || sale.lab.Unfenced || sale.lab.IgnoreLoss || sale.lab.Nested != "" {
			return single(ctx, store, sale)
		}
		return m.sell(ctx, store, sale)
	}
}

// underLock asks for the lock, cuts the batch when it is held, and sells it.
func (m *merger) underLock(l lock.Locker, q *mergeQueue) {
	wanted, end := context.WithCancel(context.Background())
	defer end()
	first, ok := q.First(end)
	if !ok {
		return
	}
	o := first.sale.Options
	o.Wait = wanted
	var batch mergeBatch
	held := false
	err := lock.Do(context.Background(), l, string(q.Key.sku), o, func(ctx context.Context, fence lock.Fence) error {
		held = true
		if batch = m.cut(q); len(batch) == 0 {
			return nil
		}
		ctx, cancel := batch.enter(ctx, fence)
		defer cancel()
		return batch.readThinkWrite(Begin(ctx), q.Key.store)
	})
	switch {
	case err == nil, !held && wanted.Err() != nil: // nobody waited any more; whoever came since is for the next turn
		return
	case !held:
		batch = m.cut(q)
	case !errors.Is(err, lock.ErrLost):
		return // it has its sales' errors
	}
	for _, w := range batch {
		w.err = errors.Join(w.err, err)
	}
}

// enter marks the start of the critical section of all sales of a batch, and bounds it.
func (b mergeBatch) enter(ctx context.Context, fence lock.Fence) (context.Context, context.CancelFunc) {
	began, bound := time.Now(), b[0].sale.most+b.hold()
	for _, w := range b {
		w.sale.entered, w.sale.fence, w.sale.Fence = began, fence, uint64(fence)
		w.sale.tell(Acquired)
		bound += w.sale.stops.longest()
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	b.stop(ctx, AfterLock)
	return ctx, cancel
}

// hold is how long the batch thinks in the lab.
func (b mergeBatch) hold() (longest time.Duration) {
	for _, w := range b {
		longest = max(longest, w.sale.lab.Hold)
	}
	return longest
}

// stop stops at a point for each sale that wants it. Only the end of ctx ends it early, which the next step sees.
func (b mergeBatch) stop(ctx context.Context, point Points) {
	for _, w := range b {
		_ = w.sale.stops.at(ctx, point)
	}
}

// readThinkWrite is that of a single sale, once for all: see there. The error is one that all of them have, and that
// the lock has to know of.
func (b mergeBatch) readThinkWrite(ctx context.Context, store Store) error {
	defer b.leave()
	err := b.readThink(ctx, store)
	var version uint64
	if err == nil {
		if version = b[0].sale.Version; b[0].sale.Fence == 0 {
			version = 0 // as writeFenced: without a fence nothing is compared
		}
		if !b.fits() {
			return nil
		}
		// Conditional also without a version: Batch deducts from what is there.
		err = conditional(b.write(ctx, store, version))
	}
	for _, w := range b {
		switch {
		case err != nil:
			w.err = err
		case errors.Is(w.err, ErrConflict):
			w.err = ErrOvertaken
		case w.err == nil:
			w.sale.written = true
			w.sale.tell(Wrote)
		}
	}
	if err == nil {
		b.stop(ctx, AfterWrite)
	}
	return err
}

func (b mergeBatch) leave() {
	for _, w := range b {
		w.sale.leave()
	}
}

func (b mergeBatch) readThink(ctx context.Context, store Store) error {
	stock, err := store.Read(ctx, b[0].sale.SKU)
	if err != nil {
		return err
	}
	for _, w := range b {
		w.sale.saw(stock)
	}
	if !b.fits() {
		return nil
	}
	b.stop(ctx, AfterRead)
	for _, w := range b {
		w.sale.tell(Thinks)
	}
	if err := (&Sale{lab: Lab{Hold: b.hold()}}).hold(ctx); err != nil {
		return err
	}
	b.stop(ctx, BeforeWrite)
	return context.Cause(ctx)
}

// fits reports whether any of the sales can be made by what was read, and otherwise refuses them all.
func (b mergeBatch) fits() bool {
	if slices.ContainsFunc(b, func(w *merging) bool { return w.sale.Quantity <= w.sale.Read }) {
		return true
	}
	for _, w := range b {
		w.err = &SoldOutError{w.sale.Read}
	}
	return false
}
