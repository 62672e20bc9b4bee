// Package gate is the bounded queue in front of a server. It limits the number of operations that are in the server at
// a time, and the number that wait. Further operations are refused before they have done anything.
//
// A pool of connections alone is an unbounded queue without fairness: under overload every caller waits until its
// deadline, and then gets an error that does not name the overload. See docs/adr/README.md#back-pressure.
package gate

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
)

// Limits are the limits of a Gate.
type Limits struct {
	In      int // most operations in the server at a time; at least 1
	PerKey  int // most operations in the server with the same key, so that one key cannot block all others; 0: In
	Waiting int // most operations that wait; 0: any number
}

// A Gate admits operations to a server. Operations with the same key are admitted first come, first served. Keys take
// turns, so that a key with a thousand waiters does not delay a key with one. An unused key takes no memory. A Gate
// is safe for concurrent use. Its methods are O(1), even if a waiter gives up. A nil Gate admits everything.
type Gate struct {
	limits Limits

	mu      sync.Mutex
	in      int
	waiting int
	queues  map[string]*queue // by key: the queues with an operation that is in the server or waits
	ready   list.List         // of *queue, the next first: queues with a waiter and room. Empty unless the gate is full
}

type queue struct {
	key     string
	in      int
	waiters list.List     // of chan struct{}, closed when the waiter is admitted; oldest first
	ready   *list.Element // place in Gate.ready; nil: none

	// done and since give the speed of the queue: done is the number of operations that have ended after since. At
	// first since is the time when the queue was created; see window.
	since time.Time
	done  int
}

// window is the number of ended operations at which a queue halves done and the time that has passed after since, so
// that recent operations count more than old ones.
const window = 64

func New(l Limits) *Gate {
	l.In = max(l.In, 1)
	if l.PerKey <= 0 || l.PerKey > l.In {
		l.PerKey = l.In
	}
	return &Gate{limits: l, queues: make(map[string]*queue)}
}

// A Request describes an operation to be admitted.
type Request struct {
	Key string
	// Wait is a second context whose end also ends the wait; nil: only ctx ends it.
	Wait context.Context
	// Until is when the operation gives up; zero: when ctx ends. If Limits.Waiting is set, and at the recent speed
	// this operation would not be admitted by then, the gate refuses it at once.
	Until time.Time
	// Begun marks work that is under way and delays others, such as a write by the holder of a lock. It waits like
	// other operations, but is never refused for lack of room, and does not stop waiting when Wait ends.
	Begun bool
}

// A RefusedError reports that the operation was not admitted, so nothing was done. It matches lock.ErrOverloaded.
type RefusedError struct {
	// KeyBusy is true if PerKey operations with the same key were in the server.
	KeyBusy bool
	reason  string
}

func (e *RefusedError) Error() string { return "overloaded: " + e.reason }

func (e *RefusedError) Is(target error) bool { return target == lock.ErrOverloaded }

// Enter waits until the operation is admitted, or until ctx, r.Wait or r.Until ends the wait. If err is nil, the
// caller must call leave once.
//
// Errors: a RefusedError if there was no room to wait, or if a deadline passed before the operation was admitted;
// otherwise the cause of ctx or of r.Wait.
func (g *Gate) Enter(ctx context.Context, r Request) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	wait := ctx
	if !r.Begun && r.Wait != nil {
		wait = r.Wait
	}
	q, place, err := g.join(r)
	if err != nil {
		return nil, err
	}
	leave = func() { g.leave(q) }
	if place == nil {
		return leave, nil
	}
	var over <-chan time.Time
	if !r.Until.IsZero() {
		timer := time.NewTimer(time.Until(r.Until))
		defer timer.Stop()
		over = timer.C
	}
	cause := context.DeadlineExceeded
	select {
	case <-place.Value.(chan struct{}):
		return leave, nil
	case <-over:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-wait.Done():
		cause = context.Cause(wait)
	}
	keyBusy, gone := g.abandon(q, place)
	if !gone {
		return leave, nil // it was admitted at the same moment; the caller checks ctx itself
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return nil, &RefusedError{KeyBusy: keyBusy, reason: "the turn did not come in time"}
	}
	return nil, fmt.Errorf("wait for a turn: %w", cause)
}

// join admits the operation and returns a nil place, or adds it to its queue and returns the place.
func (g *Gate) join(r Request) (*queue, *list.Element, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	q := g.queues[r.Key]
	if q == nil {
		q = &queue{key: r.Key, since: time.Now()}
		g.queues[r.Key] = q
	}
	if g.in < g.limits.In && q.in < g.limits.PerKey { // then no operation with this key waits, see pass
		g.in++
		q.in++
		return q, nil, nil
	}
	if g.limits.Waiting > 0 && !r.Begun {
		reason := ""
		switch {
		case g.waiting >= g.limits.Waiting:
			reason = "the queue is full"
		case q.waiters.Len() > 0 && !r.Until.IsZero() && q.expected() > time.Until(r.Until):
			reason = "the queue is too slow"
		}
		if reason != "" {
			busy := q.in >= g.limits.PerKey
			g.tidy(q)
			return nil, nil, &RefusedError{KeyBusy: busy, reason: reason}
		}
	}
	g.waiting++
	place := q.waiters.PushBack(make(chan struct{}))
	g.makeReady(q)
	return q, place, nil
}

// expected returns how long the last waiter will wait at the recent speed; 0 if no operation has ended yet.
func (q *queue) expected() time.Duration {
	if q.done == 0 {
		return 0
	}
	return time.Since(q.since) / time.Duration(q.done) * time.Duration(q.waiters.Len())
}

func (g *Gate) leave(q *queue) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	q.in--
	if q.done++; q.done == window {
		q.since = q.since.Add(time.Since(q.since) / 2)
		q.done /= 2
	}
	g.makeReady(q)
	g.tidy(q)
	g.pass()
}

// makeReady appends q to the ready queues if one of its operations waits and its key has room.
func (g *Gate) makeReady(q *queue) {
	if q.ready == nil && q.waiters.Len() > 0 && q.in < g.limits.PerKey {
		q.ready = g.ready.PushBack(q)
	}
}

// pass admits waiters while there is room, from each ready queue in turn. Afterwards the gate is full, or the key of
// each waiter is at its limit.
func (g *Gate) pass() {
	for g.in < g.limits.In && g.ready.Len() > 0 {
		q := g.ready.Remove(g.ready.Front()).(*queue)
		q.ready = nil
		waiter := q.waiters.Remove(q.waiters.Front()).(chan struct{})
		g.waiting--
		g.in++
		q.in++
		close(waiter)
		g.makeReady(q)
	}
}

// abandon gives up a place. gone is false if the operation was already admitted. keyBusy is for a RefusedError.
func (g *Gate) abandon(q *queue, place *list.Element) (keyBusy, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-place.Value.(chan struct{}):
		return false, false
	default:
	}
	q.waiters.Remove(place)
	g.waiting--
	if q.ready != nil && q.waiters.Len() == 0 {
		g.ready.Remove(q.ready)
		q.ready = nil
	}
	g.tidy(q)
	return q.in >= g.limits.PerKey, true
}

// tidy removes q if none of its operations is in the server or waits.
func (g *Gate) tidy(q *queue) {
	if q.in == 0 && q.waiters.Len() == 0 {
		delete(g.queues, q.key)
	}
}

// Load returns how many operations are in the server, and how many wait.
func (g *Gate) Load() (in, waiting int) {
	if g == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in, g.waiting
}
