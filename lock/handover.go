package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Bound limits how long one process may keep a lease going from holder to holder; a zero field means its default.
type Bound struct {
	Holders int           // local holders of one lease; default 16, and never more than the locker's Span
	Time    time.Duration // since the lease was acquired; default 50 ms. The holder who passes it is the last
}

// A Starter is a locker that can begin an acquisition without waiting for its turn. [HandOver] makes use of it.
type Starter interface {
	Locker
	// Start is Acquire up to the moment at which it would wait for another holder. If it is over by then, Start returns
	// the lease or the error. Otherwise it returns wait alone, which is the rest of Acquire on a ctx of its own, in the
	// place in the queue that Start has taken. It must be called, once.
	Start(ctx context.Context, key string, o Options) (
		lease *Lease, wait func(context.Context) (*Lease, error), err error)
}

// A FenceRanger locker issues fences with room between them: each is followed by FenceRange()-1 numbers that go to
// nobody else. [HandOver] gives them to the local holders of one lease.
type FenceRanger interface {
	Locker
	FenceRange() uint64
}

// HandOver makes one contender of all that wait for a key in this process. They queue here, first come, first
// served. One lease is acquired from l for all of them. It goes to the first waiter; each holder hands it to the
// next one here, until the bound is reached and other processes have their turn. The holders of one such lease are
// a batch.
//
// The acquisition from l belongs to the queue, not to the first waiter: when that one gives up, the others keep the
// process's place at l, and l is asked until nobody here waits any more. l is told the name of the waiter that was
// first when it was asked. A caller that tries once asks l itself, once, if nobody here holds or waits. So does any
// caller that finds nobody here, up to the moment at which it must wait, if l is a [Starter]: uncontended there is then
// no goroutine, which took a third of the CPU time of such a turn. If that request fails, the failure is the caller's
// alone, and l is asked anew for those who came meanwhile.
//
// Round trips: those of l for each lease, so uncontended the same as l, and contended 1/Holders of them for each
// holder.
//
// Every holder has a Lease of its own, which is lost when l's is, and a fence of its own, larger than that of the
// holder before and smaller than that of the next lease. A lease that is lost or abandoned is not handed on: the
// waiters here are served by another one. Between processes it is as fair as l, but in batches of up to Holders: so
// many may pass an earlier waiter of another process.
//
// An error of l that ends no wait goes to the first waiter, and l is asked again for the others.
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

// A batch is one lease of the inner locker, and how much of it is used.
type batch struct {
	lease   *Lease
	since   time.Time
	holders int
	retired bool // its renewal was stopped: it ends with this holder
}

func (h *handOver) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	s := h.queues.of(key)
	k, busy := s.keys[key]
	switch {
	case !busy:
		k = s.open(key)
		k.holder, k.asked = Contender{Who: o.Owner, Since: time.Now()}, o.Owner
		s.mu.Unlock()
		return h.lead(ctx, k, o)
	case o.TryOnce:
		holder := k.holder.Who
		if k.acquisition != nil && k.first != nil {
			holder = k.first.Who
		}
		s.mu.Unlock()
		return nil, &HeldError{Key: key, Holder: holder}
	case k.acquisition != nil:
		k.acquisition.outlive(time.Now())
	}
	w := k.join(ctx, o)
	s.mu.Unlock()
	return h.wait(ctx, k, w)
}

// lead acquires for a caller that finds nobody here. As far as that needs no wait, the caller does it itself, in its
// own name and time; whoever comes meanwhile waits for the end of that. If another process holds the key, the caller is
// the first of those who wait.
func (h *handOver) lead(ctx context.Context, k *keyQueue, o Options) (*Lease, error) {
	lease, wait, err := h.start(ctx, k, o)
	switch {
	case err != nil:
		h.goOn(k)
		return nil, err
	case wait == nil:
		return h.sublet(k, &batch{lease: lease, since: time.Now()}), nil
	}
	k.shard.mu.Lock()
	w := k.lead(ctx, o)
	h.ask(k, wait)
	k.shard.mu.Unlock()
	return h.wait(ctx, k, w)
}

// start is that of the inner locker. One that has none does nothing in it, and all in wait.
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

// wait waits for the turn of w.
func (h *handOver) wait(ctx context.Context, k *keyQueue, w *waiter) (*Lease, error) {
	select {
	case g := <-w.come:
		if g.err != nil {
			return nil, g.err
		}
		return h.sublet(k, g.batch), nil
	case <-ctx.Done():
		return nil, h.giveUp(ctx, k, w)
	}
}

// giveUp ends the wait of w. The last waiter that leaves ends the acquisition, too, and waits until it has left
// nothing behind.
func (h *handOver) giveUp(ctx context.Context, k *keyQueue, w *waiter) error {
	held := errors.Join(&HeldError{Key: k.key}, context.Cause(ctx))
	k.shard.mu.Lock()
	left, a := k.leave(w), k.acquisition
	last := left && a != nil && k.waiting == 0
	k.shard.mu.Unlock()
	switch {
	case !left: // the grant came at the same moment
		g := <-w.come
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
		return a.err // which knows more of the holder, or that there was no answer
	}
	return held
}

// A share is what one local holder has of a batch.
type share struct {
	h *handOver
	k *keyQueue
	b *batch

	unfollow func() bool // has the loss of the batch's lease told to nobody
	once     sync.Once
	err      error // of its end
}

// sublet makes the lease of one local holder. It is lost with that of the batch, and does not end it: that is given
// back, handed on or abandoned when this holder is done. Nobody uses the batch after a holder that has abandoned its
// lease, or has stopped its renewal.
func (h *handOver) sublet(k *keyQueue, b *batch) *Lease {
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
	l.bound, l.leave, l.retire = true, s.leave, s.retire // bound: what it gives back is the batch's lease, if anything
	s.unfollow = context.AfterFunc(b.lease.held, func() {
		l.end(&lostError{k.key, b.lease.Err()})
		_ = s.end(false) // the holder may hang: those behind it go on, with a lease of their own
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

// end is what becomes of the batch.
func (s *share) end(abandon bool) error {
	s.once.Do(func() {
		if !abandon {
			s.err = s.h.settle(s.k, s.b)
			return
		}
		s.b.lease.Abandon()
		s.h.goOn(s.k)
	})
	return s.err
}

// settle ends a local holding: it hands the batch on, or gives the lease back and has another one acquired for those
// who wait.
func (h *handOver) settle(k *keyQueue, b *batch) error {
	k.shard.mu.Lock()
	passed := h.lasts(b) && k.pass(grant{batch: b})
	k.shard.mu.Unlock()
	if passed {
		return nil
	}
	err := b.lease.Release()
	h.goOn(k)
	return err
}

// lasts reports whether the batch may have another holder.
func (h *handOver) lasts(b *batch) bool {
	return b.lease.Err() == nil && !b.retired && b.holders < h.bound.Holders && time.Since(b.since) < h.bound.Time
}

// goOn begins to acquire a lease for the waiters, if there are any.
func (h *handOver) goOn(k *keyQueue) {
	k.shard.mu.Lock()
	defer k.shard.mu.Unlock()
	if k.batch = nil; k.first == nil {
		k.close()
		return
	}
	h.ask(k, nil)
}

// An acquisition is one Acquire of the inner locker for all waiters of a key, and its ctx, which ends when nobody
// waits any more, and whose deadline is the latest of theirs.
type acquisition struct {
	context.Context
	end     context.CancelCauseFunc
	options Options
	queue   *keyQueue
	first   time.Time     // the deadline as it was when it began; zero: none
	done    chan struct{} // closed when the inner Acquire has returned, and nothing of it is left; err can be read then
	err     error
}

// Deadline is for clients that put one on their sockets. It may grow, but not once it has passed: see outlive.
func (a *acquisition) Deadline() (deadline time.Time, limited bool) {
	a.queue.shard.mu.Lock()
	defer a.queue.shard.mu.Unlock()
	return a.queue.until, !a.queue.endless
}

// outlive is called, with the shard locked, before a waiter joins. If the time of all the others is over, so is
// a's: code that has seen the deadline pass relies on the end of the ctx. The next acquisition serves the new
// waiter.
func (a *acquisition) outlive(now time.Time) {
	if !a.queue.endless && !now.Before(a.queue.until) {
		a.end(context.DeadlineExceeded)
	}
}

// outgrown reports whether a may have failed by a deadline that has grown since. The shard is locked.
func (a *acquisition) outgrown(now time.Time) bool {
	grown := a.queue.endless || a.queue.until.After(a.first)
	return !a.first.IsZero() && !now.Before(a.first) && grown
}

// ask begins to acquire a lease for the waiters, by what is left of an Acquire that has begun, or, if that is nil, by a
// new one. The shard is locked, and there is a waiter. The goroutine ends before the last waiter returns: it ends with
// a grant to a waiter, or the last one waits for its end.
func (h *handOver) ask(k *keyQueue, acquire func(context.Context) (*Lease, error)) {
	a := h.begin(k)
	again := func(ctx context.Context) (*Lease, error) { return h.inner.Acquire(ctx, k.key, a.options) }
	if acquire == nil {
		acquire = again
	}
	go func() {
		for a != nil {
			lease, err := acquire(a)
			a, acquire = h.deliver(k, a, lease, err), again
		}
	}()
}

// begin makes the acquisition of a queue that has waiters and none. The shard is locked.
func (h *handOver) begin(k *keyQueue) *acquisition {
	k.asked = k.first.Who
	ctx, end := context.WithCancelCause(context.Background())
	a := &acquisition{
		Context: ctx, end: end, queue: k, done: make(chan struct{}),
		options: Options{Owner: k.asked, OnWake: k.wake},
	}
	if !k.endless {
		a.first = k.until
	}
	k.acquisition = a
	return a
}

// wake tells the first waiter that a server has woken this process.
func (k *keyQueue) wake() {
	k.shard.mu.Lock()
	var first Options
	if k.first != nil {
		first = k.first.options
	}
	k.shard.mu.Unlock()
	first.Woken()
}

// deliver gives the outcome of a to the waiter that has waited longest, and begins the next acquisition if others
// are left.
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
		// All have given up at the same moment. It is given back before the last of them returns.
		k.acquisition = a
		k.shard.mu.Unlock()
		_ = lease.Release()
		k.shard.mu.Lock()
		k.acquisition = nil
	} else if a.Err() == nil && !a.outgrown(time.Now()) {
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

// Inspect returns the inner locker's answer together with the waiters of this process, whose names are known here only.
// They stand behind the one that contends for all of them: first as many as may still share its lease, the others
// at the end, where the next lease of this process would be. A bound that is reached by time makes it fewer.
func (h *handOver) Inspect(ctx context.Context, key string) (State, error) {
	s, err := Inspect(ctx, h.inner, key)
	if err != nil {
		return s, err
	}
	shard := h.queues.of(key)
	defer shard.mu.Unlock()
	if k, busy := shard.keys[key]; busy {
		h.fill(&s, k)
	}
	return s, nil
}

func (h *handOver) fill(s *State, k *keyQueue) {
	local := k.waiters()
	at, share := len(s.Waiters), 0
	if b := k.batch; b != nil {
		// The lease may have been lost to another since: then its fence is not the holder's.
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
		// The next holder, for whom the lease is being acquired: the first waiter, or a caller that tries once.
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
		} else if s.Holder != nil && s.Holder.Who == k.asked { // granted, and not yet here
			s.Holder.Who = ours.Who
			at, share = 0, h.bound.Holders-1
		} // or it has not come to the server yet, and is nowhere
	}
	share = min(max(share, 0), len(local))
	s.Waiters = slices.Concat(s.Waiters[:at:at], local[:share], s.Waiters[at:], local[share:])
}

// Evict passes through: whichever process has the lease, its local holders lose it with it.
func (h *handOver) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, h.inner, key)
}
