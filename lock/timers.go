package lock

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Timers are timers that share one timer of the runtime, which is set to the earliest of them and stays set when that
// one is stopped. The zero value is ready. A driver has one for all its leases; see [Renewal].
//
// Every acquisition sets two timers, for its lease and for its release, and stops them a millisecond later. A timer of
// the runtime that becomes the earliest wakes a thread. In an acquisition without contention on Redis, that was 15 of
// the client's 60 us of CPU time.
type Timers struct {
	mu    sync.Mutex
	queue timerQueue
	timer *time.Timer // calls ring; nil before the first
	set   time.Time   // when timer calls ring; zero: it is not running
}

// A sharedTimer calls a func in a goroutine of its own at a time, unless it is stopped before.
type sharedTimer struct {
	of    *Timers
	at    time.Time
	call  func()
	index int // in the queue; -1: it is no longer there
}

// afterFunc is [time.AfterFunc] with a time instead of a duration.
func (t *Timers) afterFunc(at time.Time, call func()) *sharedTimer {
	s := &sharedTimer{of: t, at: at, call: call}
	t.mu.Lock()
	defer t.mu.Unlock()
	heap.Push(&t.queue, s)
	t.wake(at)
	return s
}

// stop reports whether it has prevented the call.
func (s *sharedTimer) stop() bool {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.index < 0 {
		return false
	}
	heap.Remove(&s.of.queue, s.index)
	return true
}

// wake makes ring run at a time, or earlier.
func (t *Timers) wake(at time.Time) {
	switch {
	case t.timer == nil:
		t.timer = time.AfterFunc(time.Until(at), t.ring)
	case t.set.IsZero(), at.Before(t.set):
		t.timer.Reset(time.Until(at))
	default:
		return
	}
	t.set = at
}

// ring calls what is due.
func (t *Timers) ring() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = time.Time{}
	for now := time.Now(); len(t.queue) > 0 && !t.queue[0].at.After(now); {
		go heap.Pop(&t.queue).(*sharedTimer).call()
	}
	if len(t.queue) > 0 {
		t.wake(t.queue[0].at)
	}
}

// withTimeout is [context.WithTimeout] without a parent.
func (t *Timers) withTimeout(d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	until := time.Now().Add(d)
	over := t.afterFunc(until, func() { cancel(context.DeadlineExceeded) })
	return limited{ctx, until}, func() {
		over.stop()
		cancel(nil)
	}
}

// limited is a ctx with a deadline.
type limited struct {
	context.Context
	until time.Time
}

func (l limited) Deadline() (time.Time, bool) { return l.until, true }

func (l limited) Err() error { return context.Cause(l.Context) }

// timerQueue implements [heap.Interface], with the earliest timer first.
type timerQueue []*sharedTimer

func (q timerQueue) Len() int           { return len(q) }
func (q timerQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q timerQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *timerQueue) Push(s any) {
	s.(*sharedTimer).index = len(*q)
	*q = append(*q, s.(*sharedTimer))
}

func (q *timerQueue) Pop() any {
	last := len(*q) - 1
	s := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	s.index = -1
	return s
}
