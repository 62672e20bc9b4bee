package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"example.com/stock/lock"
)

// MergedUnderLock is UnderLock for all sales of a SKU that wait in this process. Under one lease of the SKU's lock it
// reads once, runs the business logic once, and writes the orders of a batch in one step of the store, which must be a
// [Batcher]. So many sales share the cost of the lock.
//
// It differs from [Merged] as follows:
//
//   - The batch is cut when the lock is held. It has the sales that arrived during the last batch and during the wait
//     for the lock. A sale can leave until the batch is cut; it then fails with the error of an ended wait for the
//     lock. The wait for the lock belongs to the queue: it continues when the first sale leaves, and ends when no sale
//     waits.
//   - The write is refused as a whole if the version has changed since the read, or if the fence is smaller than one
//     that the stock has seen. All sales of a batch have the same fence.
//   - In the lab, the business logic of a batch takes as long as the longest "hold" of its sales, and the batch pauses
//     at the points of each.
//   - A sale acquires the lock for itself, as with [UnderLock], if it tries only once, or if lab options let it write
//     without the fence, acquire the lock twice, or continue after the lease is lost.
//
// Round trips for each batch: those of l, a Read and a Batch.
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

// underLock acquires the lock, cuts the batch, and makes its sales.
func (m *merger) underLock(l lock.Locker, q *mergeQueue) {
	empty, end := context.WithCancel(context.Background())
	defer end()
	first, wait, ok := q.First(end)
	if !ok {
		return
	}
	values := context.WithoutCancel(wait) // the wait for the lock is in the trace of the first sale
	wanted, cancel := context.WithCancel(values)
	defer cancel()
	defer context.AfterFunc(empty, cancel)()
	o := first.sale.Options
	o.Wait = wanted
	var batch mergeBatch
	held := false
	err := lock.Do(values, l, string(q.Key.sku), o, func(ctx context.Context, fence lock.Fence) error {
		held = true
		if batch = m.cut(q); len(batch) == 0 {
			return nil
		}
		ctx, cancel := batch.enter(q.Traced(ctx), fence)
		defer cancel()
		return batch.readThinkWrite(Begin(ctx), q.Key.store)
	})
	switch {
	case err == nil, !held && wanted.Err() != nil: // all sales have left; later ones wait for the next turn
		return
	case !held:
		batch = m.cut(q)
	case !errors.Is(err, lock.ErrLost):
		return // each sale has its error already
	}
	for _, w := range batch {
		w.err = errors.Join(w.err, err)
	}
}

// enter records that all sales of a batch have entered the critical section, and limits its time.
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

// hold returns the longest lab hold of the sales of a batch.
func (b mergeBatch) hold() (longest time.Duration) {
	for _, w := range b {
		longest = max(longest, w.sale.lab.Hold)
	}
	return longest
}

// stop pauses at a point, once for each sale with a pause there. It ignores the end of ctx, because the next step then
// fails.
func (b mergeBatch) stop(ctx context.Context, point Points) {
	for _, w := range b {
		_ = w.sale.stops.at(ctx, point)
	}
}

// readThinkWrite is like the function readThinkWrite, but for all sales of the batch together. It returns an error only
// if the error concerns the whole batch; the lock needs this error.
func (b mergeBatch) readThinkWrite(ctx context.Context, store Store) error {
	defer b.leave()
	err := b.readThink(ctx, store)
	var version uint64
	if err == nil {
		if version = b[0].sale.Version; b[0].sale.Fence == 0 {
			version = 0 // as in writeFenced: without a fence no version is compared
		}
		if !b.fits() {
			return nil
		}
		// The write is conditional even without a version, because Batch deducts from the current quantity.
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

// fits reports whether the quantity that was read is enough for at least one of the sales. If not, fits refuses all
// sales.
func (b mergeBatch) fits() bool {
	if slices.ContainsFunc(b, func(w *merging) bool { return w.sale.Quantity <= w.sale.Read }) {
		return true
	}
	for _, w := range b {
		w.err = &SoldOutError{w.sale.Read}
	}
	return false
}
