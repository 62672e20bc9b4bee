package lock

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// keyQueues are the queues of the keys that somebody in this process holds or waits for, in shards, so that what goes
// on at one key does not hold up the others. Keys that nobody holds or waits for cost nothing. The zero value is
// ready.
type keyQueues [shards]shard

// shards is how many mutexes the keys share. What is done under one takes the same time however many wait: a shard is
// contended when its keys together see some million operations a second.
const shards = 32

type shard struct {
	mu   sync.Mutex
	keys map[string]*keyQueue
}

var seed = maphash.MakeSeed()

// of is the shard of key, locked.
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
	return k
}

// A keyQueue holds the holder of a key in this process and its waiters, first come, first served. Its shard's mutex
// guards it. It exists from the first that enters until the last has left.
type keyQueue struct {
	key   string
	shard *shard

	holder      Contender
	first, last *waiter // a linked list, so that who gives up leaves in the same time from any place
	waiting     int

	// The latest deadline of all that have waited since the queue was last empty, and whether one of them has none.
	until   time.Time
	endless bool

	// Of HandOver alone.
	batch       *batch       // that the holder is of; nil: none here yet
	acquisition *acquisition // that is under way for those who wait
	asked       string       // who asked for the lease, by name, and so what the server knows
}

// A waiter is a place in the queue of a key.
type waiter struct {
	Contender
	options    Options
	come       chan grant // has room for the one that comes
	prev, next *waiter
	queued     bool
}

// A grant ends the wait of a waiter: it is the holder now, in the batch if there is one, or err says why not.
type grant struct {
	batch *batch
	err   error
}

// join adds a waiter, which waits until ctx ends, at the end.
func (k *keyQueue) join(ctx context.Context, o Options) *waiter {
	return k.insert(ctx, &waiter{Contender: Contender{Who: o.Owner, Since: time.Now()}, options: o, prev: k.last})
}

// lead makes a waiter of the holder, who has asked and must wait. Nobody was here when it came: it is the first.
func (k *keyQueue) lead(ctx context.Context, o Options) *waiter {
	return k.insert(ctx, &waiter{Contender: k.holder, options: o, next: k.first})
}

// insert adds w, which waits until ctx ends, between the two that it names.
func (k *keyQueue) insert(ctx context.Context, w *waiter) *waiter {
	w.come, w.queued = make(chan grant, 1), true
	if k.waiting == 0 {
		k.until, k.endless = time.Time{}, false
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
		k.endless = true
	} else if deadline.After(k.until) {
		k.until = deadline
	}
	return w
}

// leave takes w out, from whatever place. False means that its grant has come already.
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

// pass gives g to the first waiter, which is the holder from now on unless g is an error. It returns false if
// nobody waits.
func (k *keyQueue) pass(g grant) bool {
	w := k.first
	if w == nil {
		return false
	}
	k.leave(w)
	if g.err == nil {
		k.holder = Contender{Who: w.Who, Since: time.Now()}
	}
	w.come <- g
	return true
}

// close removes the queue of a key that nobody holds or waits for.
func (k *keyQueue) close() { delete(k.shard.keys, k.key) }

// waiters returns the waiters in the order in which they came.
func (k *keyQueue) waiters() []Contender {
	list := make([]Contender, 0, k.waiting)
	for w := k.first; w != nil; w = w.next {
		list = append(list, w.Contender)
	}
	return list
}
