package lock

import (
	"context"
	"errors"
	"time"
)

// A Queue admits one goroutine of this process at a time to each key, first come, first served. Unused keys take no
// memory. Enter, Leave and giving up take constant time. The zero value is ready.
type Queue struct{ queues keyQueues }

// Enter waits for key until ctx ends, or tries once if o.TryOnce is set. The error matches ErrHeld.
func (q *Queue) Enter(ctx context.Context, key string, o Options) error {
	s := q.queues.of(key)
	k, held := s.keys[key]
	if !held {
		s.open(key).holder = Contender{Who: o.Owner, Since: time.Now()}
		s.mu.Unlock()
		return nil
	}
	if o.TryOnce {
		holder := k.holder.Who
		s.mu.Unlock()
		return &HeldError{Key: key, Holder: holder}
	}
	w := k.join(o)
	s.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		left := k.leave(w)
		s.mu.Unlock()
		if !left {
			q.Leave(key) // the turn came at the same moment: pass it on
		}
		return errors.Join(&HeldError{Key: key}, context.Cause(ctx))
	}
}

// Leave admits the next waiter. Only a caller that has entered may leave.
func (q *Queue) Leave(key string) {
	s := q.queues.of(key)
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil && !k.pass(time.Now()) {
		k.close()
	}
}

// State returns the holder of key in this process and its waiters, in time proportional to the number of waiters.
func (q *Queue) State(key string) State {
	s := q.queues.of(key)
	defer s.mu.Unlock()
	state := State{Local: true}
	if k := s.keys[key]; k != nil {
		holder := k.holder
		state.Holder, state.Waiters = &holder, k.waiters()
	}
	return state
}
