package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

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
// There is no timer. A batch is what came while the last one was under way: who comes alone waits for nobody, and the
// more come, the larger the batches are. That is natural batching, as in group commit, or flat combining (Hendler and
// others, SPAA 2010): one serves the requests that all others have published. One batch at a time is under way for each
// SKU and store, because a second would only wait for the same row, and could overtake the first.
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
	m := newMerger(o)
	m.turn = m.inOneStep
	m.gone = func(_ *Sale, cause error) error {
		if errors.Is(cause, context.DeadlineExceeded) {
			return fmt.Errorf("the turn of its batch did not come in time: %w", lock.ErrOverloaded)
		}
		return fmt.Errorf("wait for a batch: %w", cause)
	}
	return m
}

func (m *merger) merged(ctx context.Context, store Store, sale *Sale) error {
	if err := Fits[Batcher](store); err != nil {
		return err
	}
	// Before it joins: a pause of the lab holds up this sale, and not its batch.
	if err := sale.stops.at(sale.waiting(ctx), AfterLock); err != nil {
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
func (m *merger) inOneStep(q *mergeQueue, batch *mergeBatch) {
	*batch = m.cut(q)
	if len(*batch) == 0 {
		return
	}
	ctx, cancel := q.step((*batch)[0].sale.most)
	defer cancel()
	began := time.Now()
	for _, w := range *batch {
		w.sale.entered = began
		w.sale.tell(Acquired)
	}
	batch.write(ctx, q.store, 0)
	for _, w := range *batch {
		w.err = overdue(w.err)
	}
}

// A merger makes batches of the sales of one strategy, for each SKU and store.
type merger struct {
	MergeOptions
	// turn cuts a batch, and sells it. The queue may be empty by then.
	turn func(q *mergeQueue, batch *mergeBatch)
	// gone is what a sale returns whose wait ended before its batch began.
	gone func(sale *Sale, cause error) error

	mu     sync.Mutex
	queues map[stockKey]*mergeQueue // those with a goroutine
}

// A mergeQueue is what waits for one key. Its goroutine begins with the first sale and ends when nobody waits.
type mergeQueue struct {
	stockKey
	waiting mergeBatch         // the first to come first
	idle    context.CancelFunc // called when the last one leaves; nil: nobody wants to know
}

// A mergeBatch is sales of one key in the order of arrival.
type mergeBatch []*merging

// A merging is a sale in a queue, or in a batch. Who waits for it reads err, and the sale, after done is closed.
type merging struct {
	sale     *Sale
	queue    *mergeQueue
	done     chan struct{}
	err      error
	panicked any
}

func newMerger(o MergeOptions) *merger {
	o.Limit, o.Queue = cmp.Or(o.Limit, 128), cmp.Or(o.Queue, 4096)
	return &merger{MergeOptions: o, queues: make(map[stockKey]*mergeQueue)}
}

// sell waits until a batch with the sale in it is sold, or leaves.
func (m *merger) sell(ctx context.Context, store Store, sale *Sale) error {
	wait := sale.waiting(ctx)
	if wait.Err() != nil {
		return m.gone(sale, context.Cause(wait))
	}
	w, err := m.join(stockKey{store, sale.SKU}, sale)
	if err != nil {
		return err
	}
	select {
	case <-w.done:
	case <-wait.Done():
		if m.leave(w) {
			return m.gone(sale, context.Cause(wait))
		}
		<-w.done // its batch has begun
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.err
}

// join appends the sale to its queue. The first in a queue starts its goroutine.
func (m *merger) join(key stockKey, sale *Sale) (*merging, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, led := m.queues[key]
	if !led {
		q = &mergeQueue{stockKey: key}
		m.queues[key] = q
	}
	if len(q.waiting) >= m.Queue {
		return nil, fmt.Errorf("%d sales of SKU %s wait for a batch: %w", m.Queue, key.sku, lock.ErrOverloaded)
	}
	w := &merging{sale: sale, queue: q, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	if !led {
		go m.lead(q) // it ends when nobody waits, and all who wait have an end
	}
	return w, nil
}

// leave takes a sale out of its queue, and reports false if its batch has begun.
func (m *merger) leave(w *merging) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	q := w.queue
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	if len(q.waiting) == 0 && q.idle != nil {
		q.idle()
	}
	return true
}

// lead sells batch after batch until nobody waits.
func (m *merger) lead(q *mergeQueue) {
	for m.wanted(q) {
		m.serve(q)
	}
}

// wanted reports whether anybody waits. If not, the queue is closed.
func (m *merger) wanted(q *mergeQueue) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(m.queues, q.stockKey)
		return false
	}
	return true
}

// cut takes the next batch out of the queue. Its sales cannot leave any more.
func (m *merger) cut(q *mergeQueue) mergeBatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(len(q.waiting), m.Limit)
	batch := q.waiting[:n:n]
	q.waiting = slices.Clone(q.waiting[n:])
	for i, w := range batch {
		w.sale.batch = &InBatch{ID: batch[0].sale.ID, Place: i + 1, Size: n}
	}
	return batch
}

// serve calls turn, which fills in a batch and what became of it, and tells those who wait for it. A panic becomes
// theirs: they have somebody who recovers and reports it.
func (m *merger) serve(q *mergeQueue) {
	var batch mergeBatch
	defer func() {
		panicked := recover()
		if panicked != nil {
			panicked = fmt.Sprintf("%v\n\n%s", panicked, debug.Stack())
		}
		for _, w := range batch {
			w.panicked = panicked
			close(w.done)
		}
	}()
	m.turn(q, &batch)
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
			w.sale.Order = results[i].Order
		}
	}
	return err
}
