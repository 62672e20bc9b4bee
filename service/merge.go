package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/internal/batching"
	"example.com/stock/lock"
)

// MergeOptions bound the batches of [Merged] and [MergedUnderLock]. The zero value is the default.
type MergeOptions struct {
	// Limit is the most sales of a batch; 0: 128. A script of 128 keeps Redis from all else for 0.7 ms.
	Limit int
	// Queue is the most sales of one SKU and store that wait for their batch; 0: 4096. Others are refused with
	// lock.ErrOverloaded.
	Queue int
}

// Merged sells in batches: the deductions of one SKU that wait in this process are made by one step of the store, which
// must be a [Batcher], and a pointer.
//
// There is no timer: a batch is what came while the last one was under way (package batching). One batch at a time is
// under way for each SKU and store, because a second would only wait for the same row, and could overtake the first.
//
// What a sale is told is the same as by [Atomically]: batches are in the order of arrival, each sale has its own order,
// Read, Remaining and Version, and its own refusal. One that does not fit is sold out with what is left at its turn,
// and smaller ones behind it are still sold: [Atomically] does that, too. To stop at the first that does not fit would
// let one customer who wants too much keep all others from what is left.
//
// A sale leaves while it waits for its batch, when its wait ends. From then on it is finished in any case: whether one
// order of a step is to be written cannot be changed while it is under way. When the outcome of a step is not known,
// it is not known for each of its sales, by its own order id; nothing is tried again. The bound of a batch is that of a
// single sale, twice Config.Work.
//
// Round trips: those of Batch for each batch.
func Merged(o MergeOptions) Seller { return newMerged(o).merged }

func newMerged(o MergeOptions) *merger {
	return newMerger(o, (*merger).inOneStep, func(_ *Sale, cause error) error {
		if errors.Is(cause, context.DeadlineExceeded) {
			return fmt.Errorf("the turn of its batch did not come in time: %w", lock.ErrOverloaded)
		}
		return fmt.Errorf("wait for a batch: %w", cause)
	})
}

func (m *merger) merged(ctx context.Context, store Store, sale *Sale) error {
	if err := Fits[Batcher](store); err != nil {
		return err
	}
	// Before it joins: a pause of the lab holds up this sale, and not its batch.
	if err := sale.stops.at(WaitOf(ctx), AfterLock); err != nil {
		return m.gone(sale, err)
	}
	err := m.sell(ctx, store, sale)
	if err == nil {
		sale.wrote(ctx)
	}
	sale.tell(Released)
	return err
}

// inOneStep sells a batch with nothing but the store.
func (m *merger) inOneStep(q *mergeQueue) {
	batch := m.cut(q)
	if len(batch) == 0 {
		return
	}
	ctx, cancel := q.Key.step(batch[0].sale.most)
	defer cancel()
	began := time.Now()
	for _, w := range batch {
		w.sale.entered = began
		w.sale.tell(Acquired)
	}
	batch.write(ctx, q.Key.store, 0)
	for _, w := range batch {
		w.err = overdue(w.err)
	}
}

// A merger makes batches of the sales of one strategy, for each SKU and store.
type merger struct {
	MergeOptions
	queues *batching.Queues[stockKey, merging]
	// gone is what a sale returns whose wait ended before its batch began.
	gone func(sale *Sale, cause error) error
}

// A mergeQueue is what waits for one key.
type mergeQueue = batching.Queue[stockKey, merging]

// A mergeBatch is sales of one key in the order of arrival.
type mergeBatch []*merging

// A merging is a sale in a queue, or in a batch, and what became of it.
type merging struct {
	sale *Sale
	err  error
}

// newMerger makes a merger whose turns cut a batch, and sell it.
func newMerger(
	o MergeOptions, turn func(*merger, *mergeQueue), gone func(sale *Sale, cause error) error,
) *merger {
	o.Limit, o.Queue = cmp.Or(o.Limit, 128), cmp.Or(o.Queue, 4096)
	m := &merger{MergeOptions: o, gone: gone}
	m.queues = batching.New(o.Queue, func(q *mergeQueue) { turn(m, q) })
	return m
}

// sell waits until a batch with the sale in it is sold, or leaves.
func (m *merger) sell(ctx context.Context, store Store, sale *Sale) error {
	w, err := m.queues.Do(WaitOf(ctx), merging{sale: sale}, stockKey{store, sale.SKU})
	switch {
	case errors.Is(err, batching.ErrFull):
		return fmt.Errorf("%d sales of SKU %s wait for a batch: %w", m.Queue, sale.SKU, lock.ErrOverloaded)
	case err != nil:
		return m.gone(sale, err)
	}
	return w.err
}

// cut takes the next batch out of the queue. Its sales cannot leave any more.
func (m *merger) cut(q *mergeQueue) mergeBatch {
	batch := q.Cut(m.Limit, nil)
	for i, w := range batch {
		w.sale.batch = &InBatch{ID: batch[0].sale.ID, Place: i + 1, Size: len(batch)}
	}
	return batch
}

// step bounds a step of the store for a batch: once for the step, and once for the queue in front of the store. The ctx
// is of no sale, whose end would be that of the others.
func (stockKey) step(most time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 2*most)
}

// write makes the orders of a batch in one step of the store, which must have that version, 0 for any. The error is one
// that all of them have.
func (b mergeBatch) write(ctx context.Context, store Store, version uint64) error {
	batcher, err := Capability[Batcher](store)
	var results []Result
	if err == nil {
		orders := make([]Order, len(b))
		for i, w := range b {
			orders[i] = w.sale.Order
			w.sale.tell(Writes)
		}
		results, err = batcher.Batch(ctx, version, orders)
	}
	left := time.Now()
	for i, w := range b {
		w.sale.left = left
		switch {
		case err != nil:
			w.err = err
		case results[i].Err != nil:
			w.err = results[i].Err
		default:
			w.sale.Order, w.sale.wroteAt = results[i].Order, left
		}
	}
	return err
}
