// Package batching serves values that wait in this process for the same key in batches.
//
// There is no timer. A batch consists of the values that arrived while the batch before it was under way, so a value
// that arrives alone does not wait, and under load the batches grow. Group commit works like this, and so does flat
// combining (Hendler and others, SPAA 2010), where one thread serves the requests that the others have published.
package batching

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// ErrFull means that the queue has no room for the value. Nothing was done for it.
var ErrFull = errors.New("too many wait for a batch")

// Queues has a queue of V for each key for which a value waits or is under way. It is safe for concurrent use.
type Queues[K comparable, V any] struct {
	waiting, batch int
	turn           func(K, []*V)

	mu   sync.Mutex
	open map[K]*queue[V] // the queues that have a goroutine
}

// A queue holds the values that wait for one key, in the order of arrival. Its goroutine starts with the first value
// and ends when none waits.
type queue[V any] struct{ waiting []*waiter[V] }

// A waiter is a value in a queue. Its caller reads value and panicked after done is closed.
type waiter[V any] struct {
	value    V
	done     chan struct{}
	panicked any
}

// New makes Queues. In each queue at most so many values wait, and a batch has at most so many. turn serves a batch, in
// the order of arrival, and runs once at a time for each key; Do returns what it writes to a value. It gets no context,
// because the end of one caller's context must not end the work for others, so it must bound its own time.
func New[K comparable, V any](waiting, batch int, turn func(key K, batch []*V)) *Queues[K, V] {
	return &Queues[K, V]{waiting: waiting, batch: batch, turn: turn, open: make(map[K]*queue[V])}
}

// Do waits for a turn of the queue of key that serves v, and returns v as the turn has left it.
//
// If wait ends before the batch of v begins, Do removes v from the queue and returns the cause. After that, Do waits
// for the end of the turn. If the turn panics, Do panics, because a caller can recover and report that, but the
// goroutine of the queue cannot.
//
// Other errors: ErrFull.
func (qs *Queues[K, V]) Do(wait context.Context, key K, v V) (V, error) {
	if wait.Err() != nil {
		return v, context.Cause(wait)
	}
	q, w, err := qs.join(key, v)
	if err != nil {
		return v, err
	}
	select {
	case <-w.done:
	case <-wait.Done():
		if qs.leave(q, w) {
			return v, context.Cause(wait)
		}
		<-w.done // its batch has begun
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.value, nil
}

// join appends v to the queue of key. The first value of a queue starts its goroutine.
func (qs *Queues[K, V]) join(key K, v V) (*queue[V], *waiter[V], error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q, running := qs.open[key]
	if !running {
		q = &queue[V]{}
		qs.open[key] = q
	}
	if len(q.waiting) >= qs.waiting {
		return nil, nil, ErrFull
	}
	w := &waiter[V]{value: v, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	if !running {
		go qs.run(key, q)
	}
	return q, w, nil
}

// leave removes a waiter from its queue. It returns false if its batch has begun.
func (qs *Queues[K, V]) leave(q *queue[V], w *waiter[V]) bool {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// run serves batch after batch until no value waits.
func (qs *Queues[K, V]) run(key K, q *queue[V]) {
	for batch := qs.next(key, q); len(batch) > 0; batch = qs.next(key, q) {
		qs.serve(key, batch)
	}
}

// next removes the next batch from the queue. After that its values cannot leave. If none waits, it closes the queue.
func (qs *Queues[K, V]) next(key K, q *queue[V]) []*waiter[V] {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	n := min(len(q.waiting), qs.batch)
	if n == 0 {
		delete(qs.open, key)
		return nil
	}
	batch := q.waiting[:n:n]
	q.waiting = slices.Clone(q.waiting[n:])
	return batch
}

// serve calls turn, and then wakes the waiters of its batch, even after a panic.
func (qs *Queues[K, V]) serve(key K, batch []*waiter[V]) {
	values := make([]*V, len(batch))
	for i, w := range batch {
		values[i] = &w.value
	}
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
	qs.turn(key, values)
}
