package lock

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// keyQueues has the queues of the keys that callers in this process hold or wait for. They are divided into shards,
// so that work on one key seldom delays another. Unused keys take no memory. The zero value is ready.
type keyQueues [shards]shard

// shards is how many mutexes the keys share. The time under a mutex does not depend on the number of waiters, so
// shards are contended only from some million operations a second on.
const shards = 32

type shard struct {
	mu   sync.Mutex
	keys map[string]*keyQueue
	peak int // the most keys since the map was made
}

// maxIdleKeys is the largest peak of a map of keys that is kept when it is empty. A map that once had many keys never
// gives their memory back, so a larger one is made anew.
const maxIdleKeys = 1024

var seed = maphash.MakeSeed()

// of returns the shard of key, with its mutex locked.
func (q *keyQueues) of(key string) *shard {
	s := &q[maphash.String(seed, key)%shards]
	s.mu.Lock()
	return s
}

// open makes the queue of a key that has none. s is locked.
func (s *shard) open(key string) *keyQueue {
	if s.keys == nil {
		s.keys = make(map[string]*keyQueue)
	}
	k := &keyQueue{key: key, shard: s}
	s.keys[key] = k
	s.peak = max(s.peak, len(s.keys))
	return k
}

// A keyQueue has the holder of a key in this process and its waiters, first come, first served. Its shard's mutex
// guards it. It exists while there is a holder, a waiter or a kept lease.
type keyQueue struct {
	key   string
	shard *shard

	holder      Contender
	first, last *waiter // a linked list, so that a waiter that gives up leaves in constant time from any place
	waiting     int

	// until is the latest deadline of all waiters since the queue was last empty; unlimited is set if one had none.
	until     time.Time
	unlimited bool

	// The fields below are for HandOver.
	batch       *batch       // of the holder; nil: none yet
	kept        *batch       // has no holder, and waits for one; nil: none. Then there are no waiters
	acquisition *acquisition // under way for the waiters; nil: none
	asked       string       // the Owner in the request for the lease, which the server shows as the holder
}

type waiter struct {
	Contender
	options    Options
	granted    chan grant // has room for the one grant
	prev, next *waiter
	queued     bool
}

// A grant ends a wait. If err is nil, the waiter is now the holder; batch is set if HandOver granted it.
type grant struct {
	batch *batch
	err   error
}

// join adds a waiter at the end of the queue. The waiter waits until ctx ends.
func (k *keyQueue) join(ctx context.Context, o Options) *waiter {
	return k.insert(ctx, &waiter{Contender: Contender{Who: o.Owner, Since: time.Now()}, options: o, prev: k.last})
}

// joinFirst makes the holder the first waiter, because the inner locker told it to wait.
func (k *keyQueue) joinFirst(ctx context.Context, o Options) *waiter {
	return k.insert(ctx, &waiter{Contender: k.holder, options: o, next: k.first})
}

// insert adds w between w.prev and w.next. w waits until ctx ends.
func (k *keyQueue) insert(ctx context.Context, w *waiter) *waiter {
	w.granted, w.queued = make(chan grant, 1), true
	if k.waiting == 0 {
		k.until, k.unlimited = time.Time{}, false
	}
	if w.prev == nil {
		k.first = w
	} else {
		w.prev.next = w
	}
	if w.next == nil {
		k.last = w
	} else {
		w.next.prev = w
	}
	k.waiting++
	if deadline, limited := ctx.Deadline(); !limited {
		k.unlimited = true
	} else if deadline.After(k.until) {
		k.until = deadline
	}
	return w
}

// leave removes w, which may be anywhere in the queue. It returns false if w already has a grant.
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

// pass gives g to the first waiter, which becomes the holder unless g is an error. It returns false if there is no
// waiter.
func (k *keyQueue) pass(g grant) bool {
	w := k.first
	if w == nil {
		return false
	}
	k.leave(w)
	if g.err == nil {
		k.holder = Contender{Who: w.Who, Since: time.Now()}
	}
	w.granted <- g
	return true
}

// close removes the queue of a key without holder and waiters.
func (k *keyQueue) close() {
	s := k.shard
	delete(s.keys, k.key)
	if len(s.keys) == 0 && s.peak > maxIdleKeys {
		s.keys, s.peak = nil, 0
	}
}

func (k *keyQueue) waiters() []Contender {
	list := make([]Contender, 0, k.waiting)
	for w := k.first; w != nil; w = w.next {
		list = append(list, w.Contender)
	}
	return list
}
