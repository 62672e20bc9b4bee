package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Queue lets one goroutine of this process at a time into each key, first come, first served. Keys that nobody holds or
// waits for cost nothing. The zero value is ready.
type Queue struct {
	mu   sync.Mutex
	keys map[string]*line // an entry for every key that is held
}

// A line is who is in, and who waits.
type line struct {
	holder  Contender
	waiters []place // oldest first
}

type place struct {
	Contender
	turn chan struct{} // closed when it comes
}

// Enter waits for key until ctx ends, or tries once with a ctx of NoWait. The error matches ErrHeld.
func (q *Queue) Enter(ctx context.Context, key string) error {
	me := Contender{Who: Owner(ctx), Since: time.Now()}
	q.mu.Lock()
	l, held := q.keys[key]
	if !held {
		if q.keys == nil {
			q.keys = make(map[string]*line)
		}
		q.keys[key] = &line{holder: me}
		q.mu.Unlock()
		return nil
	}
	if IsNoWait(ctx) {
		holder := l.holder.Who
		q.mu.Unlock()
		return &HeldError{Key: key, Holder: holder}
	}
	turn := make(chan struct{})
	l.waiters = append(l.waiters, place{me, turn})
	q.mu.Unlock()

	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		if !q.abandon(key, turn) {
			q.Leave(key) // the turn came at the same moment: pass it on
		}
		return errors.Join(&HeldError{Key: key}, context.Cause(ctx))
	}
}

// Leave lets the next one in. Only the one who entered may leave.
func (q *Queue) Leave(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[key]
	if l == nil || len(l.waiters) == 0 {
		delete(q.keys, key)
		return
	}
	next := l.waiters[0]
	l.waiters = l.waiters[1:]
	l.holder = Contender{Who: next.Who, Since: time.Now()}
	close(next.turn)
}

// abandon gives up a place in the queue; false means that its turn had come already.
func (q *Queue) abandon(key string, turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.keys[key]
	if l == nil {
		return false
	}
	for i, w := range l.waiters {
		if w.turn == turn {
			l.waiters = append(l.waiters[:i:i], l.waiters[i+1:]...)
			return true
		}
	}
	return false
}

// Standing is who is in key and who waits for it, of this process.
func (q *Queue) Standing(key string) Standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := Standing{Scope: Process}
	l := q.keys[key]
	if l == nil {
		return s
	}
	holder := l.holder
	s.Holder = &holder
	for _, w := range l.waiters {
		s.Waiters = append(s.Waiters, w.Contender)
	}
	return s
}
