// Package batching does together, in one step, what waits in this process for the same thing.
//
// There is no timer. A batch is what came while the last one was under way: who comes alone waits for nobody, and the
// more come, the larger the batches are. So does group commit, and flat combining (Hendler and others, SPAA 2010): one
// serves the requests that all others have published.
package batching

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// ErrFull is the error of one that would have been one too many in its queue. Nothing was done for it.
var ErrFull = errors.New("too many wait for a batch")

// Queues are queues of V, one for each key for which any V waits or is under way. It is safe for concurrent use.
type Queues[K comparable, V any] struct {
	most int
	turn func(*Queue[K, V])

	mu   sync.Mutex
	open map[K]*Queue[K, V] // those with a goroutine
}

// A Queue is what waits for one key, the first to come first. Its goroutine begins with the first and ends when nobody
// waits, so it lives no longer than the waits do.
type Queue[K comparable, V any] struct {
	Key     K
	of      *Queues[K, V]
	waiting []*waiter[V]
	batch   []*waiter[V] // of the turn
	empty   func()       // called when the last one leaves; nil: nobody wants to know
}

// Who waits reads value and panicked after done is closed.
type waiter[V any] struct {
	value    V
	done     chan struct{}
	panicked any
}

// New makes Queues in each of which at most so many wait. A turn serves those for whom it calls Cut, and must do it in
// bounded time: it has no context, because the end of one must not be the end of the others. One turn at a time is
// under way for each key.
func New[K comparable, V any](most int, turn func(*Queue[K, V])) *Queues[K, V] {
	return &Queues[K, V]{most: most, turn: turn, open: make(map[K]*Queue[K, V])}
}

// Len returns the number of keys for which any waits or is under way.
func (qs *Queues[K, V]) Len() int {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	return len(qs.open)
}

// Do waits for a turn that serves v, and returns v as the turn has left it. Of several keys it waits for the one for
// which most wait, or for the first if nobody waits for any; there must be one.
//
// A wait that ends before the batch of v is cut takes v out of the queue; the error is then the cause of that end. From
// the cut on Do waits for the end of the turn in any case. If the turn panics, Do does, too: unlike the goroutine of
// the queue, its caller has somebody who recovers and reports it.
//
// Other errors: ErrFull.
func (qs *Queues[K, V]) Do(wait context.Context, v V, keys ...K) (V, error) {
	if wait.Err() != nil {
		return v, context.Cause(wait)
	}
	q, w, err := qs.join(v, keys)
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

// join appends v to a queue. The first in a queue starts its goroutine.
func (qs *Queues[K, V]) join(v V, keys []K) (*Queue[K, V], *waiter[V], error) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	var q *Queue[K, V]
	for _, key := range keys {
		if of := qs.open[key]; of != nil && (q == nil || len(of.waiting) > len(q.waiting)) {
			q = of
		}
	}
	running := q != nil
	if !running {
		q = &Queue[K, V]{Key: keys[0], of: qs}
		qs.open[q.Key] = q
	}
	if len(q.waiting) >= qs.most {
		return nil, nil, ErrFull
	}
	w := &waiter[V]{value: v, done: make(chan struct{})}
	q.waiting = append(q.waiting, w)
	if !running {
		go q.run()
	}
	return q, w, nil
}

// leave takes a waiter out of its queue, and reports false if its batch has been cut.
func (q *Queue[K, V]) leave(w *waiter[V]) bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	if len(q.waiting) == 0 && q.empty != nil {
		q.empty()
	}
	return true
}

// lead takes turn after turn until nobody waits.
func (q *Queue[K, V]) run() {
	for q.wanted() {
		q.serve()
	}
}

// wanted reports whether anybody waits. If not, the queue is closed.
func (q *Queue[K, V]) wanted() bool {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	q.empty = nil // it was the last turn's
	if len(q.waiting) == 0 {
		delete(q.of.open, q.Key)
		return false
	}
	return true
}

// serve takes a turn and tells those whom it has served, whatever became of it.
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

// First is for a turn that has something to wait for before it cuts its batch, such as a lock. It returns the first of
// those that wait, or false if nobody does. Until the end of the turn empty is called when the last one leaves, perhaps
// more than once.
func (q *Queue[K, V]) First(empty func()) (first V, ok bool) {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	if len(q.waiting) == 0 {
		return first, false
	}
	q.empty = empty
	return q.waiting[0].value, true
}

// Cut takes the batch of a turn out of the queue, in the order of arrival; none of it can leave any more. It has at
// most so many, and ends before the first that does not fit; the very first goes in any case. A nil fits takes all.
// What the turn writes to a V is what Do returns. A turn cuts once.
func (q *Queue[K, V]) Cut(most int, fits func(V) bool) []*V {
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	n := 0
	for n < min(len(q.waiting), most) && (fits == nil || fits(q.waiting[n].value) || n == 0) {
		n++
	}
	q.batch, q.waiting = q.waiting[:n:n], slices.Clone(q.waiting[n:])
	batch := make([]*V, n)
	for i, w := range q.batch {
		batch[i] = &w.value
	}
	return batch
}
