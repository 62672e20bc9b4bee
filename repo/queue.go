package repo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A Queue is the bounded queue in front of a server. It limits the operations that are in the server at a time, which
// are admitted first come, first served, and those that wait. Further operations are refused before they have done
// anything. A Queue is safe for concurrent use.
//
// A pool of connections alone is an unbounded queue: under overload every caller waits until its deadline, and then
// gets an error that does not name the overload. See docs/adr/README.md#back-pressure.
type Queue struct {
	places      *semaphore.Weighted
	mostWaiting int64
	in, waiting atomic.Int64
}

// NewQueue returns a Queue that admits in operations at a time, at least one, and lets waiting others wait.
func NewQueue(in, waiting int) *Queue {
	return &Queue{places: semaphore.NewWeighted(int64(max(in, 1))), mostWaiting: int64(waiting)}
}

// NoLimit admits or lets wait any number of operations.
const NoLimit = math.MaxInt

// Enter waits until the operation is admitted, but for at most half of the time that ctx has left: the other half is
// for the server. If the operation has not begun (see service.Begin), the end of the sale's wait also ends this one.
// The caller must call leave once.
//
// Errors: lock.ErrOverloaded if there was no room to wait, or if the time has passed; lock.ErrDown if the deadline of
// ctx had passed before; otherwise the cause of ctx. Work that has begun delays others, so it is never refused for lack
// of room.
func (q *Queue) Enter(ctx context.Context, doing string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, CtxEnded(ctx, doing)
	}
	admitted := q.places.TryAcquire(1)
	if !admitted {
		if err := q.wait(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	q.in.Add(1)
	return q.leave, nil
}

func (q *Queue) leave() {
	q.in.Add(-1)
	q.places.Release(1)
}

func (q *Queue) wait(ctx context.Context) error {
	waiting := q.waiting.Add(1)
	defer q.waiting.Add(-1)
	if waiting > q.mostWaiting && !service.Begun(ctx) {
		return fmt.Errorf("%w: the queue is full", lock.ErrOverloaded)
	}
	wait, done := service.Waiting(ctx)
	defer done()
	if deadline, ok := ctx.Deadline(); ok {
		var stop context.CancelFunc
		wait, stop = context.WithTimeout(wait, time.Until(deadline)/2)
		defer stop()
	}
	if err := q.places.Acquire(wait, 1); err == nil {
		return nil
	}
	cause := context.Cause(wait)
	if errors.Is(cause, context.DeadlineExceeded) {
		return fmt.Errorf("%w: the turn did not come in time", lock.ErrOverloaded)
	}
	return fmt.Errorf("wait for a turn: %w", cause)
}

// Load returns how many operations are in the server, and how many wait.
func (q *Queue) Load() (in, waiting int) { return int(q.in.Load()), int(q.waiting.Load()) }

// rowQueues has a semaphore for each SKU that a transaction is about. A transaction waits for its row on a connection,
// and holds the row until its caller has finished, so without a limit the waiters for one row would take every
// connection. The zero value is ready.
type rowQueues struct {
	mu   sync.Mutex
	rows map[service.SKU]*rowQueue
}

type rowQueue struct {
	places *semaphore.Weighted
	users  int // when there are none, the semaphore is dropped
}

// perRow is how many transactions hold a row or wait for it at the server. With two, the next one already waits there
// when the row is released.
const perRow = 2

// enter waits until ctx ends, or with tryOnce not at all. If the row is not free, it fails with lock.ErrHeld.
func (r *rowQueues) enter(ctx context.Context, sku service.SKU, tryOnce bool) (leave func(), err error) {
	q := r.join(sku)
	leave = func() { q.places.Release(1); r.leave(sku, q) }
	admitted := q.places.TryAcquire(1)
	if admitted {
		return leave, nil
	}
	held := fmt.Errorf("row %w, by another transaction of this process", lock.ErrHeld)
	if tryOnce {
		r.leave(sku, q)
		return nil, held
	}
	if err := q.places.Acquire(ctx, 1); err != nil {
		r.leave(sku, q)
		return nil, fmt.Errorf("%w: %w", held, context.Cause(ctx))
	}
	return leave, nil
}

func (r *rowQueues) join(sku service.SKU) *rowQueue {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows == nil {
		r.rows = make(map[service.SKU]*rowQueue)
	}
	q, there := r.rows[sku]
	if !there {
		q = &rowQueue{places: semaphore.NewWeighted(perRow)}
		r.rows[sku] = q
	}
	q.users++
	return q
}

func (r *rowQueues) leave(sku service.SKU, q *rowQueue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.users--
	if q.users == 0 {
		delete(r.rows, sku)
	}
}
