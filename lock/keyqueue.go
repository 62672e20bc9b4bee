package lock

import (
	"sync"
	"time"
)

// keyQueues has the queues of the keys that callers in this process hold or wait for. Unused keys take no memory. The
// zero value is ready. One mutex is for all keys, because what is done under it is short, however many wait.
type keyQueues struct {
	mu   sync.Mutex
	keys map[string]*keyQueue
	peak int // the most keys since the map was made
}

// maxIdleKeys is the largest peak of a map of keys that is kept when it is empty. A map that once had many keys never
// gives their memory back, so a larger one is made anew.
const maxIdleKeys = 1024

// open makes the queue of a key that has none. q.mu is held, as for all that follows.
func (q *keyQueues) open(key string) *keyQueue {
	if q.keys == nil {
		q.keys = make(map[string]*keyQueue)
	}
	k := &keyQueue{key: key}
	q.keys[key] = k
	q.peak = max(q.peak, len(q.keys))
	return k
}

// close removes the queue of a key without holder and waiters.
func (q *keyQueues) close(k *keyQueue) {
	delete(q.keys, k.key)
	if len(q.keys) == 0 && q.peak > maxIdleKeys {
		q.keys, q.peak = nil, 0
	}
}

// A keyQueue has the holder of a key in this process and its waiters, first come, first served. The mutex of
// keyQueues guards it. It exists while there is a holder or a waiter.
type keyQueue struct {
	key         string
	holder      Contender
	first, last *waiter // a linked list, so that a waiter that gives up leaves in constant time from any place
	waiting     int

	// The fields below are for HandOver.
	batch     *batch  // the holder's, or on its way to the holder; nil: the contender has the turn
	contender *waiter // the last one
}

type waiter struct {
	Contender
	until      time.Time // the end of its wait
	limited    bool      // its wait has an end
	granted    chan turn // has room for the one turn that may be on its way
	prev, next *waiter
	queued     bool
}

// A turn is what a waiter waits for.
type turn uint8

const (
	toHold    turn = iota // the waiter is now the holder; in HandOver, of the queue's batch
	toContend             // the waiter is now HandOver's contender, and stays in the queue
)

// join adds a waiter at the end of the queue.
func (k *keyQueue) join(o Options) *waiter {
	w := &waiter{
		Contender: Contender{Who: o.Owner, Since: time.Now()},
		granted:   make(chan turn, 1), queued: true, prev: k.last,
	}
	if w.prev == nil {
		k.first = w
	} else {
		w.prev.next = w
	}
	k.last = w
	k.waiting++
	return w
}

// outwaits reports whether w can wait longer than other.
func (w *waiter) outwaits(other *waiter) bool {
	if !w.limited || !other.limited {
		return other.limited
	}
	return w.until.After(other.until)
}

// leave removes w, which may be anywhere in the queue. It returns false if w is the holder by now.
func (k *keyQueue) leave(w *waiter) bool {
	if !w.queued {
		return false
	}
	w.queued = false
	k.waiting--
	if w.prev == nil {
		k.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		k.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
	return true
}

// pass makes the first waiter the holder. It returns false if there is no waiter.
func (k *keyQueue) pass(now time.Time) bool {
	w := k.first
	if w == nil {
		return false
	}
	k.leave(w)
	k.holder = Contender{Who: w.Who, Since: now}
	w.granted <- toHold
	return true
}

// appoint makes w HandOver's contender.
func (k *keyQueue) appoint(w *waiter) {
	k.batch, k.contender = nil, w
	w.granted <- toContend
}

// ahead returns who has the key in HandOver, or gets it next.
func (k *keyQueue) ahead() string {
	if k.batch == nil && k.first != nil {
		return k.first.Who
	}
	return k.holder.Who
}

// contends reports whether c, of which the server knows the name, is HandOver's contender.
func (k *keyQueue) contends(c Contender) bool { return c.Who == k.contender.Who }

func (k *keyQueue) waiters() []Contender {
	list := make([]Contender, 0, k.waiting)
	for w := k.first; w != nil; w = w.next {
		list = append(list, w.Contender)
	}
	return list
}
