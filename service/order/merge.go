package order

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/stock/internal/batching"
	"example.com/stock/lock"
	"example.com/stock/service"
)

// MergeOptions limit the batches of a [Merged]. The zero value means the defaults.
type MergeOptions struct {
	Limit int // most steps of a batch; 0: 128
	// Queue is the largest number of steps of one SKU that wait for a batch; 0: 4096. Further steps are refused with
	// lock.ErrOverloaded.
	Queue int
	// Work is the time limit of a step of the store; 0: 2 s. A batch may take twice Work: once in the queue in front
	// of the store, once in the store.
	Work time.Duration
	// Trace joins the span of a batch to those of its steps; nil: batches are not traced.
	Trace batching.Trace
}

// A Merged is a Ledger that makes steps in batches: the steps about one SKU that wait in this process are made in one
// step of the store. It is safe for concurrent use.
//
// There is no timer: a batch consists of the steps that arrived during the previous batch (see package batching). For
// each queue one batch is under way at a time. A second one would only wait for the same row, and could overtake the
// first.
//
// A step returns what it would return alone. Batches are made in the order of arrival. Each step sees the stock after
// the earlier steps of the batch. If it fails, the other steps are still made. A step about several SKUs joins the
// longest of their queues, so a batch may also have other SKUs; batches of different queues that share a SKU wait for
// each other in the store.
//
// A step whose wait ends leaves the queue. Once its batch has begun, the step is finished in any case. If the outcome
// of a batch is not known, each of its steps returns service.ErrOutcomeUnknown, and nothing is retried.
//
// Round trips: for each batch those of Batch; for each step that names an order or a reservation, one more to read its
// SKUs.
type Merged struct {
	MergeOptions
	store  MergeStore
	queues *batching.Queues[service.SKU, merging]
}

// A MergeStore is the store that a Merged needs.
type MergeStore interface {
	Batcher
	Records
}

// Merged returns c with steps made in batches, unless c has a Lock. c.Work replaces o.Work.
func (c Config) Merged(o MergeOptions) Config {
	if c.Lock == nil {
		o.Work = c.Work
		c.Ledger, c.merged = NewMerged(c.Store, o), true
	}
	return c
}

// NewMerged makes a Merged. A process should have only one for each store, because the batches of two would wait for
// each other in the store.
func NewMerged(store MergeStore, o MergeOptions) *Merged {
	o.Limit, o.Queue, o.Work = cmp.Or(o.Limit, 128), cmp.Or(o.Queue, 4096), cmp.Or(o.Work, 2*time.Second)
	m := &Merged{MergeOptions: o, store: store}
	m.queues = batching.New(o.Queue, m.serve, o.Trace)
	return m
}

// A merging is a step in a queue or in a batch, with its result.
type merging struct {
	Request
	out StepResult
}

// Step makes a step in a batch with others. A step that may create SKUs is made alone; only the steps of an operator
// may.
func (m *Merged) Step(
	ctx context.Context, about About, decide func(State) (Changes, error),
) (reply []byte, replayed bool, err error) {
	named, err := m.name(ctx, about)
	switch {
	case err != nil:
		return nil, false, err
	case about.Create || len(named.SKUs) == 0 || ctx.Err() != nil: // there is no queue for it
		return m.store.Step(ctx, about, decide)
	}
	w, err := m.queues.Do(service.WaitOf(ctx), merging{Request: Request{named, decide}}, named.SKUs...)
	switch {
	case errors.Is(err, batching.ErrFull):
		return nil, false, fmt.Errorf("%d steps wait for a batch: %w", m.Queue, lock.ErrOverloaded)
	case err != nil:
		return nil, false, gone(err)
	}
	return w.out.Reply, w.out.Replayed, w.out.Err
}

// gone returns the error of a step whose wait ended before its batch began.
func gone(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("the turn of its batch did not come in time: %w", lock.ErrOverloaded)
	}
	return fmt.Errorf("wait for a batch: %w", cause)
}

// name adds the SKUs of the order and of the reservation to about. It adds nothing for one that does not exist. The
// result stays right, because the lines of an order never change.
func (m *Merged) name(ctx context.Context, about About) (About, error) {
	var lines []Line
	if about.Order != "" {
		o, err := m.store.Order(ctx, about.Order)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return about, err
		}
		lines = append(lines, o.Lines...)
	}
	if about.Reservation != "" {
		r, err := m.store.Reservation(ctx, about.Reservation)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return about, err
		}
		lines = append(lines, r.Lines...)
	}
	if len(lines) > 0 {
		about.SKUs = append(slices.Clone(about.SKUs), skusOf(lines)...)
		slices.Sort(about.SKUs)
		about.SKUs = slices.Compact(about.SKUs)
	}
	return about, nil
}

// serve makes a batch in one step of the store. Its ctx does not derive from the ctx of a step, which could end while
// other steps of the batch continue.
func (m *Merged) serve(q *batching.Queue[service.SKU, merging]) {
	lines := 0
	batch := q.Cut(m.Limit, func(w merging) bool {
		lines += len(w.About.SKUs)
		return lines <= mergeLines
	})
	if len(batch) == 0 {
		return // all have left
	}
	ctx, cancel := context.WithTimeout(q.Traced(context.Background()), 2*m.Work)
	defer cancel()
	steps := make([]Request, len(batch))
	for i, w := range batch {
		steps[i] = w.Request
	}
	for i, out := range m.store.Batch(ctx, steps) {
		batch[i].out = out
	}
}
