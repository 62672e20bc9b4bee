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
	most int
	turn func(*Queue[K, V])

	mu   sync.Mutex
	open map[K]*Queue[K, V] // the queues that have a goroutine
}

// A Queue holds the values that wait for one key, in the order of arrival. Its goroutine starts with the first value
// and ends when none waits.
type Queue[K comparable, V any] struct {
	Key     K
	of      *Queues[K, V]
	waiting []*waiter[V]
	batch   []*waiter[V] // the batch of the present turn
}

// A waiter is a value in a queue. Its caller reads value and panicked after done is closed.
type waiter[V any] struct {
	value    V
	wait     context.Context
	done     chan struct{}
	panicked any
}

// New makes Queues. In each queue at most most values wait. turn serves the values that it takes with Cut, and runs
// once at a time for each key. It gets no context, because the end of one caller's context must not end the work for
// others, so it must bound its own time.
func New[K comparable, V any](most int, turn func(*Queue[K, V])) *Queues[K, V] {
	return &Queues[K, V]{most: most, turn: turn, open: make(map[K]*Queue[K, V])}
}

// Len returns the number of keys for which a value waits or is under way.
func (qs *Queues[K, V]) Len() int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return len(qs.open)
}

// Do waits for a turn of the queue of key that serves v, and returns v as the turn has left it.
//
// If wait ends before the batch of v is cut, Do removes v from the queue and returns the cause. After the cut, Do waits
// for the end of the turn. If the turn panics, Do panics, because a caller can recover and report that, but the
// goroutine of the queue cannot.
//
// Other errors: ErrFull.
func (qs *Queues[K, V]) Do(wait context.Context, key K, v V) (V, error) {
	if wait.Err() != nil {
		return v, context.Cause(wait)
	}
	q, w, err := qs.join(wait, key, v)
	if err != nil {
		return v, err
	}
	select {
	case <-w.done:
	case <-wait.Done():
		if q.leave(w) {
			return v, context.Cause(wait)
		}
		<-w.done // its batch has been cut
	}
	if w.panicked != nil {
		panic(w.panicked)
	}
	return w.value, nil
}

// join appends v to the queue of key. The first value of a queue starts its goroutine.
func (qs *Queues[K, V]) join(wait context.Context, key K, v V) (*Queue[K, V], *waiter[V], error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	q, running := qs.open[key]
	if !running {
		q = &Queue[K, V]{Key: key, of: qs}
		qs.open[key] = q
	}
	if len(q.waiting) >= qs.most {
		return nil, nil, ErrFull
	}
	w := &waiter[V]{value: v, wait: wait, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	if !running {
		go q.run()
	}
	return q, w, nil
}

// leave removes a waiter from its queue. It returns false if its batch has been cut.
func (q *Queue[K, V]) leave(w *waiter[V]) bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// run serves turn after turn until no value waits.
func (q *Queue[K, V]) run() {
	for q.wanted() {
		q.serve()
	}
}

// wanted reports whether a value waits. If not, it closes the queue.
func (q *Queue[K, V]) wanted() bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if len(q.waiting) == 0 {
		delete(q.of.open, q.Key)
		return false
	}
	return true
}

// serve calls turn, and then wakes the waiters of its batch, even after a panic.
func (q *Queue[K, V]) serve() {
	defer func() {
		panicked := recover()
		if panicked != nil {
			panicked = fmt.Sprintf("%v\n\n%s", panicked, debug.Stack())
		}
		for _, w := range q.batch {
			w.panicked = panicked
			close(w.done)
		}
		q.batch = nil
	}()
	q.of.turn(q)
}

// Cut removes the batch of a turn from the queue and returns it in the order of arrival. After that its values cannot
// leave. The batch has at most most values. Do returns what the turn writes to a value. A turn calls Cut once.
func (q *Queue[K, V]) Cut(most int) []*V {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	n := min(len(q.waiting), most)
	q.batch, q.waiting = q.waiting[:n:n], slices.Clone(q.waiting[n:])
	batch := make([]*V, n)
	for i, w := range q.batch {
		batch[i] = &w.value
	}
	return batch
}
