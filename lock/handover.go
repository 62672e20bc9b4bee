package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Bound limits for how long one process may hand a lease from holder to holder; a zero field means its default.
type Bound struct {
	Holders int           // local holders of one lease; default 16, and never more than the locker's FenceRange
	Time    time.Duration // since the lease was acquired; default 50 ms. The holder that exceeds it is the last
}

// A Starter is a locker that can begin an acquisition without waiting for another holder. [HandOver] uses it.
type Starter interface {
	Locker
	// Start is Acquire up to the moment at which it would wait for another holder. If the acquisition is over by then,
	// Start returns the lease or the error, and wait is nil. Otherwise it returns wait alone. wait is the rest of
	// Acquire, on a ctx of its own, in the place in the queue that Start has taken. The caller must call it once.
	Start(ctx context.Context, key string, o Options) (
		lease *Lease, wait func(context.Context) (*Lease, error), err error)
}

// A FenceRanger is a locker whose fences have gaps: the FenceRange()-1 numbers after each fence are used for no other
// fence. [HandOver] gives them to the local holders of one lease.
type FenceRanger interface {
	Locker
	FenceRange() uint64
}

// HandOver makes one contender at l of all callers in this process that want a key. The callers queue in the process,
// first come, first served. One lease is acquired from l for all of them. It goes to the first waiter, and each holder
// hands it to the next local waiter, until the bound is reached and other processes have their turn. The holders of one
// such lease are a batch.
//
// The acquisition from l belongs to the queue, not to the first waiter. If the first waiter gives up, the others keep
// the process's place at l, and l is asked until no local caller waits any more. Options.Owner of that acquisition is
// the name of the waiter that was first when it began. A caller that finds no local holder or waiter asks l itself:
// with TryOnce, and otherwise, if l is a [Starter], up to the moment at which it would wait. So an uncontended
// acquisition needs no goroutine. If that request fails, only this caller gets the error, and l is asked anew for
// callers that came meanwhile.
//
// Round trips: those of l for each lease. Uncontended that is as many as without HandOver; contended it is 1/Holders of
// them for each holder.
//
// Every holder has a Lease of its own, which is lost when l's lease is lost. Its fence is larger than that of the
// holder before, and smaller than that of the next lease. A lease that is lost or abandoned is not handed on: the local
// waiters get another one. Between processes HandOver is as fair as l, but in batches: up to Holders callers of one
// process may pass an earlier waiter of another process.
//
// If l fails with an error that ends no wait, the first waiter gets it, and l is asked again for the others.
func HandOver(l FenceRanger, b Bound) Locker {
	if b.Holders == 0 {
		b.Holders = 16
	}
	if b.Time == 0 {
		b.Time = 50 * time.Millisecond
	}
	b.Holders = min(b.Holders, int(l.FenceRange()))
	return &handOver{inner: l, bound: b}
}

type handOver struct {
	inner  FenceRanger
	bound  Bound
	queues keyQueues
}

// A batch is one lease of the inner locker, and the number of local holders that it has had.
type batch struct {
	lease   *Lease
	since   time.Time
	holders int
	retired bool // StopRenewing was called: the batch ends with this holder
}

func (h *handOver) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	s := h.queues.of(key)
	k, busy := s.keys[key]
	switch {
	case !busy:
		k = s.open(key)
		k.holder, k.asked = Contender{Who: o.Owner, Since: time.Now()}, o.Owner
		s.mu.Unlock()
		return h.acquireFirst(ctx, k, o)
	case o.TryOnce:
		holder := k.holder.Who
		if k.acquisition != nil && k.first != nil {
			holder = k.first.Who
		}
		s.mu.Unlock()
		return nil, &HeldError{Key: key, Holder: holder}
	case k.acquisition != nil:
		k.acquisition.endIfOverdue(time.Now())
	}
	w := k.join(ctx, o)
	s.mu.Unlock()
	return h.wait(ctx, k, w)
}

// acquireFirst acquires the lease for the first local caller. It runs in the caller's goroutine until it would wait.
// Then the caller becomes the first waiter, ahead of callers that came meanwhile.
func (h *handOver) acquireFirst(ctx context.Context, k *keyQueue, o Options) (*Lease, error) {
	lease, wait, err := h.start(ctx, k, o)
	switch {
	case err != nil:
		h.acquireNext(k)
		return nil, err
	case wait == nil:
		return h.newShare(k, &batch{lease: lease, since: time.Now()}), nil
	}
	k.shard.mu.Lock()
	w := k.joinFirst(ctx, o)
	h.ask(k, wait)
	k.shard.mu.Unlock()
	return h.wait(ctx, k, w)
}

// start calls the inner locker's Start. If it has none, start does nothing and wait is the whole Acquire.
func (h *handOver) start(
	ctx context.Context, k *keyQueue, o Options,
) (lease *Lease, wait func(context.Context) (*Lease, error), err error) {
	if o.TryOnce || ctx.Err() != nil {
		lease, err = h.inner.Acquire(ctx, k.key, o)
		return lease, nil, err
	}
	o = Options{Owner: o.Owner, OnWake: k.wake}
	if s, ok := h.inner.(Starter); ok {
		return s.Start(ctx, k.key, o)
	}
	return nil, func(ctx context.Context) (*Lease, error) { return h.inner.Acquire(ctx, k.key, o) }, nil
}

// wait waits until w is granted the lease, or ctx ends.
func (h *handOver) wait(ctx context.Context, k *keyQueue, w *waiter) (*Lease, error) {
	select {
	case g := <-w.granted:
		if g.err != nil {
			return nil, g.err
		}
		return h.newShare(k, g.batch), nil
	case <-ctx.Done():
		return nil, h.giveUp(ctx, k, w)
	}
}

// giveUp ends the wait of w. The last waiter also ends the acquisition, and waits until that has cleaned up.
func (h *handOver) giveUp(ctx context.Context, k *keyQueue, w *waiter) error {
	held := errors.Join(&HeldError{Key: k.key}, context.Cause(ctx))
	k.shard.mu.Lock()
	left, a := k.leave(w), k.acquisition
	last := left && a != nil && k.waiting == 0
	k.shard.mu.Unlock()
	switch {
	case !left: // the grant came at the same moment
		g := <-w.granted
		if g.err != nil {
			return g.err
		}
		_ = h.settle(k, g.batch)
		return held
	case !last:
		return held
	}
	a.end(context.Cause(ctx))
	<-a.done
	if a.err != nil {
		return a.err // it names the holder, or says that the server did not answer
	}
	return held
}

// A share is one local holder's use of a batch.
type share struct {
	h *handOver
	k *keyQueue
	b *batch

	unfollow func() bool // stops passing on the loss of the batch's lease
	once     sync.Once
	err      error // of end
}

// newShare returns a lease for one local holder. It is lost when the batch's lease is lost. When the holder is done,
// the batch is handed on, released or abandoned. It is not handed on after a holder that has abandoned its lease or
// stopped its renewal.
func (h *handOver) newShare(k *keyQueue, b *batch) *Lease {
	fence := b.lease.Fence()
	k.shard.mu.Lock()
	if fence != NoFence {
		fence += Fence(b.holders)
	}
	b.holders++
	k.batch, k.holder.Since = b, time.Now()
	k.shard.mu.Unlock()
	s := &share{h: h, k: k, b: b}
	l := newLease(k.key, fence, s.free)
	l.bound, l.leave, l.retire = true, s.leave, s.retire // bound: free releases the batch's lease, if anything
	s.unfollow = context.AfterFunc(b.lease.held, func() {
		l.end(&LostError{k.key, b.lease.Err()})
		_ = s.end(false) // this holder may hang; the waiters behind it get another lease
	})
	return l
}

func (s *share) free(context.Context) error {
	s.unfollow()
	return s.end(false)
}

func (s *share) leave() {
	s.unfollow()
	_ = s.end(true)
}

func (s *share) retire() {
	s.k.shard.mu.Lock()
	s.b.retired = true
	s.k.shard.mu.Unlock()
	s.b.lease.StopRenewing()
}

// end ends this holder's use of the batch, once.
func (s *share) end(abandon bool) error {
	s.once.Do(func() {
		if !abandon {
			s.err = s.h.settle(s.k, s.b)
			return
		}
		s.b.lease.Abandon()
		s.h.acquireNext(s.k)
	})
	return s.err
}

// settle hands the batch on, or releases its lease and acquires another one for the waiters.
func (h *handOver) settle(k *keyQueue, b *batch) error {
	k.shard.mu.Lock()
	passed := h.mayContinue(b) && k.pass(grant{batch: b})
	k.shard.mu.Unlock()
	if passed {
		return nil
	}
	err := b.lease.Release()
	h.acquireNext(k)
	return err
}

// mayContinue reports whether the batch may have another holder.
func (h *handOver) mayContinue(b *batch) bool {
	return b.lease.Err() == nil && !b.retired && b.holders < h.bound.Holders && time.Since(b.since) < h.bound.Time
}

// acquireNext begins to acquire the next lease if there are waiters. Otherwise it closes the queue.
func (h *handOver) acquireNext(k *keyQueue) {
	k.shard.mu.Lock()
	defer k.shard.mu.Unlock()
	if k.batch = nil; k.first == nil {
		k.close()
		return
	}
	h.ask(k, nil)
}

// An acquisition is one Acquire of the inner locker for all waiters of a key, and its ctx. The ctx ends when no caller
// waits any more, and has the latest deadline of all waiters.
type acquisition struct {
	context.Context
	end     context.CancelCauseFunc
	options Options
	queue   *keyQueue
	first   time.Time     // the deadline when the acquisition began; zero: none
	done    chan struct{} // closed when the inner Acquire has returned and a lease that no caller wants is released
	err     error
}

// Deadline is for clients that set a deadline on their sockets. It may be extended, but not once it has passed; see
// endIfOverdue.
func (a *acquisition) Deadline() (deadline time.Time, limited bool) {
	a.queue.shard.mu.Lock()
	defer a.queue.shard.mu.Unlock()
	return a.queue.until, !a.queue.unlimited
}

// endIfOverdue ends a if the deadline of every waiter has passed. It is called before a new waiter joins, because code
// that has seen the deadline pass relies on the end of the ctx. The next acquisition serves the new waiter. The shard
// is locked.
func (a *acquisition) endIfOverdue(now time.Time) {
	if !a.queue.unlimited && !now.Before(a.queue.until) {
		a.end(context.DeadlineExceeded)
	}
}

// deadlineGrew reports whether a may have failed because of a deadline that has been extended since. The shard is
// locked.
func (a *acquisition) deadlineGrew(now time.Time) bool {
	grown := a.queue.unlimited || a.queue.until.After(a.first)
	return !a.first.IsZero() && !now.Before(a.first) && grown
}

// ask starts the goroutine that acquires a lease for the waiters. acquire is the rest of an Acquire that has begun; nil
// means a new one. The shard is locked, and there is a waiter. The goroutine ends before the last waiter returns:
// either it ends with a grant to a waiter, or the last waiter waits for its end.
func (h *handOver) ask(k *keyQueue, acquire func(context.Context) (*Lease, error)) {
	a := h.begin(k)
	anew := func(ctx context.Context) (*Lease, error) { return h.inner.Acquire(ctx, k.key, a.options) }
	if acquire == nil {
		acquire = anew
	}
	go func() {
		for a != nil {
			lease, err := acquire(a)
			a, acquire = h.deliver(k, a, lease, err), anew
		}
	}()
}

// begin makes the acquisition for a queue that has waiters and no acquisition. The shard is locked.
func (h *handOver) begin(k *keyQueue) *acquisition {
	k.asked = k.first.Who
	ctx, end := context.WithCancelCause(context.Background())
	a := &acquisition{
		Context: ctx, end: end, queue: k, done: make(chan struct{}),
		options: Options{Owner: k.asked, OnWake: k.wake},
	}
	if !k.unlimited {
		a.first = k.until
	}
	k.acquisition = a
	return a
}

// wake calls OnWake of the first waiter, because the server has woken this process.
func (k *keyQueue) wake() {
	k.shard.mu.Lock()
	var first Options
	if k.first != nil {
		first = k.first.options
	}
	k.shard.mu.Unlock()
	first.Woken()
}

// deliver gives the outcome of a to the first waiter. After an error it begins the next acquisition if waiters are
// left.
func (h *handOver) deliver(k *keyQueue, a *acquisition, lease *Lease, err error) (next *acquisition) {
	k.shard.mu.Lock()
	defer k.shard.mu.Unlock()
	defer close(a.done)
	defer a.end(nil)
	a.err = err
	k.acquisition = nil
	if err == nil {
		if k.pass(grant{batch: &batch{lease: lease, since: time.Now()}}) {
			return nil
		}
		// All waiters have given up at the same moment. The lease is released before the last of them returns.
		k.acquisition = a
		k.shard.mu.Unlock()
		_ = lease.Release()
		k.shard.mu.Lock()
		k.acquisition = nil
	} else if a.Err() == nil && !a.deadlineGrew(time.Now()) {
		k.pass(grant{err: err})
	}
	if k.first == nil {
		k.close()
		return nil
	}
	return h.begin(k)
}

// Close closes the inner locker, if it can be closed.
func (h *handOver) Close() error {
	if c, ok := h.inner.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// Inspect returns the inner locker's answer together with the waiters of this process, which the server does not know.
// They are listed behind the process's one contender: first as many as may still share its lease, the others at the
// end, where the next lease of this process would be. If Bound.Time is reached, fewer share the lease than shown.
func (h *handOver) Inspect(ctx context.Context, key string) (State, error) {
	s, err := Inspect(ctx, h.inner, key)
	if err != nil {
		return s, err
	}
	shard := h.queues.of(key)
	defer shard.mu.Unlock()
	if k, busy := shard.keys[key]; busy {
		h.addLocal(&s, k)
	}
	return s, nil
}

func (h *handOver) addLocal(s *State, k *keyQueue) {
	local := k.waiters()
	at, share := len(s.Waiters), 0
	if b := k.batch; b != nil {
		// If the lease has been lost since, another holder is shown, whose fence differs.
		if s.Holder != nil && s.Holder.Fence == b.lease.Fence() {
			s.Holder.Who, s.Holder.Since = k.holder.Who, k.holder.Since
			if s.Holder.Fence != NoFence {
				s.Holder.Fence += Fence(b.holders - 1)
			}
			at = 0
			if !b.retired {
				share = h.bound.Holders - b.holders
			}
		}
	} else {
		// The lease is being acquired for the first waiter, or for a caller that asks by itself.
		ours := k.holder
		if k.acquisition != nil && len(local) > 0 {
			ours, local = local[0], local[1:]
		}
		if i := slices.IndexFunc(s.Waiters, func(c Contender) bool { return c.Who == k.asked }); i >= 0 {
			s.Waiters[i].Who = ours.Who
			if s.Waiters[i].Since.IsZero() {
				s.Waiters[i].Since = ours.Since
			}
			at, share = i+1, h.bound.Holders-1
		} else if s.Holder != nil && s.Holder.Who == k.asked { // granted, but the answer has not arrived yet
			s.Holder.Who = ours.Who
			at, share = 0, h.bound.Holders-1
		} // otherwise the request has not reached the server yet
	}
	share = min(max(share, 0), len(local))
	s.Waiters = slices.Concat(s.Waiters[:at:at], local[:share], s.Waiters[at:], local[share:])
}

// Evict calls the inner locker's Evict. The local holders of the evicted process lose their leases with it.
func (h *handOver) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, h.inner, key)
}
