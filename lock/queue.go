package lock

import (
	"context"
	"errors"
	"time"
)

// A Queue admits one goroutine of this process at a time to each key, first come, first served. Unused keys take no
// memory. Enter, Leave and giving up take constant time. The zero value is ready.
type Queue struct{ keyQueues }

// Enter waits for key until ctx ends, or tries once if o.TryOnce is set. The error matches ErrHeld.
func (q *Queue) Enter(ctx context.Context, key string, o Options) error {
	q.mu.Lock()
	k, held := q.keys[key]
	if !held {
		q.open(key).holder = Contender{Who: o.Owner, Since: time.Now()}
		q.mu.Unlock()
		return nil
	}
	if o.TryOnce {
		holder := k.holder.Who
		q.mu.Unlock()
		return &HeldError{Key: key, Holder: holder}
	}
	w := k.join(o)
	q.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		q.mu.Lock()
		left := k.leave(w)
		q.mu.Unlock()
		if !left {
			q.Leave(key) // the turn came at the same moment: pass it on
		}
		return errors.Join(&HeldError{Key: key}, context.Cause(ctx))
	}
}

// Leave admits the next waiter. Only a caller that has entered may leave.
func (q *Queue) Leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if k := q.keys[key]; k != nil && !k.pass(time.Now()) {
		q.close(k)
	}
}

// State returns the holder of key in this process and its waiters, in time proportional to the number of waiters.
func (q *Queue) State(key string) State {
	q.mu.Lock()
	defer q.mu.Unlock()
	state := State{Local: true}
	if k := q.keys[key]; k != nil {
		holder := k.holder
		state.Holder, state.Waiters = &holder, k.waiters()
	}
	return state
}
