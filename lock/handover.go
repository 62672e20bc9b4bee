package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A Spanned locker issues fences with room between them: each is followed by Span()-1 numbers that go to nobody else.
// [HandOver] gives them to the local holders of one lease.
type Spanned interface {
	Locker
	Span() uint64
}

// A Bound limits how long one process may keep a lease going from holder to holder; a zero field means its default.
type Bound struct {
	Holders int           // local holders of one lease; default 16, and never more than the locker's Span
	Time    time.Duration // since the lease was acquired; default 50 ms. The holder who passes it is the last
}

// HandOver makes one contender of all that wait for a key in this process. They queue here, first come, first served. The first
// acquires the lease from l; who is done hands it to the next one here, until the bound is reached and other
// processes have their turn.
//
// Round trips: those of l for each lease, so uncontended the same as l, and contended 1/Holders of them for each holder.
//
// Every holder has a Lease of its own, which is lost when l's is, and a fence of its own, larger than that of the holder before and
// smaller than that of the next lease. A lease that is lost is not handed on. Between processes it is as fair as l, but in
// turns of up to Holders: somebody who came earlier to another process may be passed by so many.
func HandOver(l Spanned, b Bound) Locker {
	if b.Holders == 0 {
		b.Holders = 16
	}
	if b.Time == 0 {
		b.Time = 50 * time.Millisecond
	}
	b.Holders = min(b.Holders, int(l.Span()))
	return &handOver{inner: l, bound: b, keys: make(map[string]*room)}
}

type handOver struct {
	inner Spanned
	bound Bound

	mu   sync.Mutex
	keys map[string]*room // an entry for every key that somebody here holds or waits for
}

// A room is the holder of a key in this process and those who wait behind it.
type room struct {
	waiters []*turn   // oldest first
	owner   string    // of the holder, or of who is acquiring a lease
	since   time.Time // since when that one holds or, while a lease is being acquired, waits
	remote  string    // owner by whom the lease was acquired, and so what the server knows
	tenure  *tenure   // nil while a lease is being acquired
}

// A turn is a place in the queue. What it receives is the lease to go on with, or nil: acquire one yourself.
type turn struct {
	owner string
	since time.Time
	come  chan *tenure
}

// A tenure is one lease of the inner locker, and how much of it is used.
type tenure struct {
	lease   *Lease
	since   time.Time
	holders int
	retired bool // its renewal was stopped: it ends with this holder
}

func (h *handOver) Acquire(ctx context.Context, key string) (*Lease, error) {
	t, err := h.enter(ctx, key)
	if err != nil {
		return nil, err
	}
	if t == nil {
		lease, err := h.inner.Acquire(ctx, key)
		if err != nil {
			h.pass(key, nil)
			return nil, err
		}
		t = &tenure{lease: lease, since: time.Now()}
	}
	return h.sublet(key, t), nil
}

// enter waits for the turn of this caller within the process.
func (h *handOver) enter(ctx context.Context, key string) (*tenure, error) {
	h.mu.Lock()
	r, busy := h.keys[key]
	if !busy {
		h.keys[key] = &room{owner: Owner(ctx), since: time.Now(), remote: Owner(ctx)}
		h.mu.Unlock()
		return nil, nil
	}
	if IsNoWait(ctx) {
		holder := r.owner
		h.mu.Unlock()
		return nil, &HeldError{Key: key, Holder: holder}
	}
	mine := &turn{owner: Owner(ctx), since: time.Now(), come: make(chan *tenure, 1)}
	r.waiters = append(r.waiters, mine)
	h.mu.Unlock()
	select {
	case t := <-mine.come:
		return t, nil
	case <-ctx.Done():
		if !h.abandon(key, mine) {
			h.settle(key, <-mine.come) // the turn came at the same moment
		}
		return nil, errors.Join(&HeldError{Key: key}, context.Cause(ctx))
	}
}

// abandon gives up a place; false means that its turn has come already.
func (h *handOver) abandon(key string, mine *turn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.keys[key]
	for i, other := range r.waiters {
		if other == mine {
			r.waiters = append(r.waiters[:i:i], r.waiters[i+1:]...)
			return true
		}
	}
	return false
}

// sublet makes the lease of one local holder.
func (h *handOver) sublet(key string, t *tenure) *Lease {
	fence := t.lease.Fence()
	h.mu.Lock()
	if fence != NoFence {
		fence += Fence(t.holders)
	}
	t.holders++
	r := h.keys[key]
	r.tenure, r.since = t, time.Now()
	h.mu.Unlock()
	end := sync.OnceValue(func() error { return h.settle(key, t) })
	var follow func() bool
	local, lost := NewLease(key, fence, func(context.Context) error {
		follow()
		return end()
	})
	follow = context.AfterFunc(t.lease.held, func() {
		lost(t.lease.Err())
		_ = end() // the holder may hang: those behind it go on, with a lease of their own
	})
	retire := local.retire
	local.retire = func() {
		h.mu.Lock()
		t.retired = true
		h.mu.Unlock()
		t.lease.StopRenewing()
		retire()
	}
	return local
}

// settle ends a holder's turn: it hands the tenure on, or gives the lease back and lets the next one here acquire another.
func (h *handOver) settle(key string, t *tenure) error {
	if t != nil && h.goesOn(t) && h.pass(key, t) {
		return nil
	}
	var err error
	if t != nil {
		err = t.lease.Release()
	}
	h.pass(key, nil)
	return err
}

// goesOn is whether the tenure may have another holder.
func (h *handOver) goesOn(t *tenure) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return t.lease.Err() == nil && !t.retired && t.holders < h.bound.Holders && time.Since(t.since) < h.bound.Time
}

// pass gives the turn to the next one here, with t. If nobody waits it returns false, and with a nil t the room is closed.
func (h *handOver) pass(key string, t *tenure) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.keys[key]
	if len(r.waiters) == 0 {
		if t == nil {
			delete(h.keys, key)
		}
		return false
	}
	next := r.waiters[0]
	r.waiters = r.waiters[1:]
	r.owner, r.since, r.tenure = next.owner, next.since, t
	if t == nil {
		r.remote = next.owner
	}
	next.come <- t
	return true
}

// Close closes the inner locker, if it can be closed.
func (h *handOver) Close() error {
	if c, ok := h.inner.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}
