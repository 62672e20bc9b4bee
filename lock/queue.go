package lock

import (
	"context"
	"errors"
	"time"
)

// A Queue lets one goroutine of this process at a time into each key, first come, first served. Keys without holder and
// waiters take no memory. To enter, to leave and to give up take constant time. The zero value is ready.
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
	w := k.join(ctx, o)
	s.mu.Unlock()

	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		s.mu.Lock()
		left := k.leave(w)
		s.mu.Unlock()
		if !left {
			q.Leave(key) // the grant came at the same moment: pass it on
		}
		return errors.Join(&HeldError{Key: key}, context.Cause(ctx))
	}
}

// Leave lets the next waiter in. Only a caller that entered may leave.
func (q *Queue) Leave(key string) {
	s := q.queues.of(key)
	defer s.mu.Unlock()
	if k := s.keys[key]; k != nil && !k.pass(grant{}) {
		k.close()
	}
}

// State returns the holder of key in this process and its waiters. Its time grows with the number of waiters.
func (q *Queue) State(key string) State {
	s := q.queues.of(key)
	defer s.mu.Unlock()
	state := State{Scope: Process}
	if k := s.keys[key]; k != nil {
		holder := k.holder
		state.Holder, state.Waiters = &holder, k.waiters()
	}
	return state
}
