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

// maxBatch is the largest number of sales in a batch. Redis serves nothing else while it executes a batch.
const maxBatch = 128

// Merged sells in batches: all deductions of one SKU that wait in this process are made in one step of the store.
// The store must be a pointer.
//
// There is no timer: a batch consists of the sales that arrived during the previous batch (see package batching). For
// each SKU and store one batch is under way at a time. A second one would only wait for the same row, and could
// overtake the first.
//
// A sale returns the same as with [Atomically]: batches are made in the order of arrival, and each sale has its own
// order, Read, Remaining and Version, or its own error. If a sale asks for more units than are left, it is refused, but
// later, smaller sales of the batch are still made. Otherwise one large order would prevent the sale of the remaining
// units.
//
// A sale whose wait ends leaves the queue. Once its batch has begun, the sale is finished in any case. If the outcome
// of a step is not known, every sale of the batch returns ErrOutcomeUnknown with its own order id, and nothing is
// retried. A batch may take twice Config.Work, like a single sale.
//
// Round trips for each batch: those of Batch.
//
// queue is the largest number of sales of one SKU and store that wait for a batch; 0: 4096. Further sales are refused
// with lock.ErrOverloaded.
func Merged(queue int) Seller {
	m := &merger{queue: cmp.Or(queue, 4096)}
	m.queues = batching.New(m.queue, maxBatch, m.sellBatch)
	return m.merged
}

// A merger makes sales in batches, with a queue for each SKU and store.
type merger struct {
	queue  int
	queues *batching.Queues[stockKey, merging]
}

// A merging is a sale in a queue or in a batch, with its error.
type merging struct {
	sale *Sale
	err  error
}

// merged pauses a sale of the lab before it joins its batch, and after the batch, so that the others are not delayed.
func (m *merger) merged(ctx context.Context, store Shop, sale *Sale) error {
	wait, done := Waiting(ctx)
	defer done()
	if err := sale.begin(wait); err != nil {
		return waitEnded(err)
	}
	err := m.sell(wait, store, sale)
	if err == nil {
		sale.wrote(ctx)
	}
	sale.tell(Released)
	return err
}

// sell returns when the batch of the sale is finished, or when the sale has left the queue.
func (m *merger) sell(wait context.Context, store Shop, sale *Sale) error {
	w, err := m.queues.Do(wait, stockKey{store, sale.SKU}, merging{sale: sale})
	switch {
	case errors.Is(err, batching.ErrFull):
		return fmt.Errorf("%d sales of SKU %s wait for a batch: %w", m.queue, sale.SKU, lock.ErrOverloaded)
	case err != nil:
		return waitEnded(err)
	}
	return overdue(w.err)
}

// waitEnded returns the error of a sale whose wait ended before its batch began.
func waitEnded(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the turn of its batch did not come in time: %w", lock.ErrOverloaded)
	}
	return fmt.Errorf("wait for a batch: %w", cause)
}

// sellBatch writes the orders of a batch in one step of the store. Each sale gets its order or its error.
func (m *merger) sellBatch(of stockKey, batch []*merging) {
	// The ctx of a sale could end while other sales of the batch continue. The limit is twice that of a sale under a
	// lock: once for the queue in front of the store, and once for the store.
	ctx, cancel := context.WithTimeout(context.Background(), 2*batch[0].sale.most)
	defer cancel()
	began := time.Now()
	orders := make([]Order, len(batch))
	for i, w := range batch {
		w.sale.batch = &InBatch{ID: batch[0].sale.ID, Place: i + 1, Size: len(batch)}
		w.sale.entered = began
		w.sale.tell(Acquired)
		w.sale.tell(Writes)
		orders[i] = w.sale.Order
	}
	results, err := of.store.Batch(ctx, orders)
	left := time.Now()
	for i, w := range batch {
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
}
