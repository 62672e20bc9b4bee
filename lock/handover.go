package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A Bound limits how long one process may hand a lease from holder to holder. A zero field means its default.
type Bound struct {
	Holders int           // local holders of one lease; default 16, and never more than the locker's FenceRange
	Time    time.Duration // time since the lease was acquired; default 50 ms. The holder that exceeds it is the last

	// Keep is how old a lease may become while no other process wants the key; default 0. See [HandOver].
	Keep time.Duration
}

// A Starter is a locker that can begin an acquisition without waiting for another holder. [HandOver] uses it.
type Starter interface {
	Locker
	// Start is Acquire up to the point where it would wait for another holder. If the acquisition is over by then,
	// Start returns the lease or the error, and wait is nil. Otherwise it returns only wait, which continues Acquire at
	// the place in the queue that Start has taken, under the ctx that wait gets. The caller must call wait once.
	Start(ctx context.Context, key string, o Options) (
		lease *Lease, wait func(context.Context) (*Lease, error), err error)
}

// A FenceRanger is a locker whose fences have gaps: the FenceRange()-1 numbers after each fence are used for no other
// fence. [HandOver] gives them to the local holders of one lease.
type FenceRanger interface {
	Locker
	FenceRange() uint64
}

// HandOver combines all callers in this process that want the same key into one contender at l. The callers queue in
// the process, first come, first served. HandOver acquires one lease from l for all of them. It goes to the first
// waiter, and each holder hands it to the next local waiter, until the bound is reached and other processes have
// their turn. The holders of one such lease are a batch.
//
// The acquisition from l belongs to the queue, not to the first waiter. If the first waiter gives up, the others keep
// the process's place at l, until no local caller waits. Options.Owner of that acquisition is the name of the waiter
// that was first when it began. A caller that finds no local holder or waiter calls l in its own goroutine: for the
// whole acquisition with TryOnce, and otherwise, if l is a [Starter], up to the point where it would wait. So an
// uncontended acquisition needs no goroutine. If that call fails, only this caller gets the error, and a new
// acquisition begins for callers that arrived meanwhile.
//
// Round trips: those of l for each lease. Without contention HandOver saves none; with contention each holder pays only
// 1/Holders of them.
//
// Every holder has its own Lease, which is lost when l's lease is lost. Its fence is larger than that of the previous
// holder, and smaller than that of l's next lease. A lease that is lost or abandoned is not handed on: the local
// waiters get another one. Between processes HandOver is as fair as l, but in batches: up to Holders callers of one
// process may pass an earlier waiter of another process.
//
// If l fails for another reason than the end of a wait, the first waiter gets the error, and a new acquisition begins
// for the others.
//
// # Kept leases
//
// With Bound.Keep, and a locker whose leases are [Lease.Revocable], HandOver does not release a lease when the last
// local caller is done. The next local caller gets it without a round trip, until it is Keep old or its fences are used
// up. When another process wants the key, the locker's server says so: a lease that no local caller
// has is released at once, otherwise Holders and Time apply as usual. This is lease caching, as the clients of Chubby
// do it (Burrows, "The Chubby lock service", OSDI 2006, section 2.4).
//
// Redis' watchdog and ZooKeeper's queue have such leases. mysqllock has none, because nothing at a MySQL server would
// tell the holder that somebody waits.
//
// What it costs: a caller in another process waits for one message and one release more, and a [Options.TryOnce] there
// fails although nobody works. If this process crashes, freezes or is cut off, the key stays taken for a lease even if
// no caller had it. If the message is lost, the caller waits until its locker repeats the request (Redis); ZooKeeper's
// message is lost only with the connection, and a broken connection gives the lease back.
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
	kept   keeping
}

// A batch is one lease of the inner locker, and the number of local holders that it has had.
type batch struct {
	lease   *Lease
	since   time.Time
	holders int
	retired bool   // StopRenewing was called: the batch ends with this holder
	holder  *share // nil: the next holder has not looked yet, or the batch is kept

	unfollow func() bool // stops calls of lose
	unkeep   func()      // stops calls of drop; nil: it was never kept
}

// release ends the batch.
func (b *batch) release() error {
	b.stop()
	return b.lease.Release()
}

// stop stops what would end the batch.
func (b *batch) stop() {
	if b.unfollow != nil {
		b.unfollow()
	}
	if b.unkeep != nil {
		b.unkeep()
	}
}

func (h *handOver) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	// The inner locker sees a context of the queue, so it cannot notice that ctx has ended.
	if err := MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	s := h.queues.of(key)
	k, busy := s.keys[key]
	if busy {
		if b := h.take(k, o); b != nil {
			s.mu.Unlock()
			lease := h.newShare(k, b)
			lease.reused = true
			return lease, nil
		}
	}
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
// Then the caller becomes the first waiter, ahead of callers that arrived meanwhile.
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

// start calls the inner locker's Start. If it has none, wait is the whole Acquire.
func (h *handOver) start(
	ctx context.Context, k *keyQueue, o Options,
) (lease *Lease, wait func(context.Context) (*Lease, error), err error) {
	if o.TryOnce || ctx.Err() != nil {
		o.Keep = h.bound.Keep > 0
		lease, err = h.inner.Acquire(ctx, k.key, o)
		return lease, nil, err
	}
	o = h.options(k, o.Owner)
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

// giveUp ends the wait of w. The last waiter also ends the acquisition, and waits until its clean-up is complete.
func (h *handOver) giveUp(ctx context.Context, k *keyQueue, w *waiter) error {
	held := errors.Join(&HeldError{Key: k.key}, context.Cause(ctx))
	k.shard.mu.Lock()
	left, a := k.leave(w), k.acquisition
	last := left && a != nil && k.waiting == 0
	k.shard.mu.Unlock()
	switch {
	case !left: // the grant arrived at the same moment
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
		return a.err // this error names the holder, or reports that the server did not answer
	}
	return held
}

// A share is one local holder's use of a batch.
type share struct {
	Lease
	h *handOver
	k *keyQueue
	b *batch

	once sync.Once
	err  error // of settle
}

// newShare returns a lease for one local holder. It is lost when the batch's lease is lost. When it ends, the batch
// is handed on, released or abandoned. If its holder has abandoned it or stopped its renewal, the batch is not handed
// on.
func (h *handOver) newShare(k *keyQueue, b *batch) *Lease {
	s := &share{h: h, k: k, b: b}
	s.key, s.fence, s.of = k.key, b.lease.Fence(), s
	s.held, s.end = context.WithCancelCause(context.Background())
	k.shard.mu.Lock()
	if s.fence != NoFence {
		s.fence += Fence(b.holders)
	}
	if b.holders++; b.unfollow == nil {
		b.unfollow = context.AfterFunc(b.lease.held, func() { h.lose(k, b) })
	}
	b.holder, k.batch, k.holder.Since = s, b, time.Now()
	k.shard.mu.Unlock()
	if b.lease.Err() != nil { // lose may have found no holder
		h.lose(k, b)
	}
	return &s.Lease
}

// lose tells the holder of a batch whose lease is lost. The holder may hang, and the waiters behind it get another
// lease.
func (h *handOver) lose(k *keyQueue, b *batch) {
	k.shard.mu.Lock()
	s := b.holder
	k.shard.mu.Unlock()
	if s == nil {
		h.drop(k, b)
		return
	}
	s.ends(&LostError{k.key, b.lease.Err()})
	_ = s.settle(false)
}

func (s *share) retire() {
	s.k.shard.mu.Lock()
	s.b.retired = true
	s.k.shard.mu.Unlock()
	s.b.lease.StopRenewing()
}

// settle ends this holder's use of the batch, once.
func (s *share) settle(abandon bool) error {
	s.once.Do(func() {
		if !abandon {
			s.err = s.h.settle(s.k, s.b)
			return
		}
		s.b.stop()
		s.b.lease.Abandon()
		s.h.acquireNext(s.k)
	})
	return s.err
}

// settle hands the batch on, or releases its lease and acquires another one for the waiters.
func (h *handOver) settle(k *keyQueue, b *batch) error {
	k.shard.mu.Lock()
	b.holder = nil
	keep := h.mayKeep(b)
	passed := (keep || h.mayContinue(b)) && k.pass(grant{batch: b}) || keep && h.keep(k, b)
	k.shard.mu.Unlock()
	if passed {
		return nil
	}
	err := b.release()
	h.acquireNext(k)
	return err
}

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

// An acquisition is one Acquire of the inner locker for all waiters of a key. It is also the ctx of that call: it
// ends when no caller waits any more, and its deadline is the latest one of all waiters.
type acquisition struct {
	context.Context
	end     context.CancelCauseFunc
	options Options
	queue   *keyQueue
	first   time.Time     // the deadline when the acquisition began; zero: none
	done    chan struct{} // closed when the inner Acquire has returned and a lease that no caller wants is released
	err     error
}

// Deadline returns the latest deadline of all waiters, which clients of servers set on their sockets. The deadline may
// move to a later time, but no longer after it has passed; see endIfOverdue.
func (a *acquisition) Deadline() (deadline time.Time, limited bool) {
	a.queue.shard.mu.Lock()
	defer a.queue.shard.mu.Unlock()
	return a.queue.until, !a.queue.unlimited
}

// endIfOverdue ends a if the deadline of every waiter has passed. It must be called before a new waiter joins: code
// that has seen the deadline pass relies on the end of the ctx. The next acquisition then serves the new waiter. The
// shard is locked.
func (a *acquisition) endIfOverdue(now time.Time) {
	if !a.queue.unlimited && !now.Before(a.queue.until) {
		a.end(context.DeadlineExceeded)
	}
}

// deadlineGrew reports whether a may have failed because of a deadline that has moved to a later time since. The shard
// is locked.
func (a *acquisition) deadlineGrew(now time.Time) bool {
	grown := a.queue.unlimited || a.queue.until.After(a.first)
	return !a.first.IsZero() && !now.Before(a.first) && grown
}

// ask starts the goroutine that acquires a lease for the waiters. acquire is the rest of an Acquire that has begun,
// or nil for a new one. The shard is locked, and there is a waiter. The goroutine never outlives the waiters: it ends
// with a grant to a waiter, or the last waiter waits for its end.
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

// begin makes the acquisition of a queue that has waiters and none yet. The shard is locked.
func (h *handOver) begin(k *keyQueue) *acquisition {
	k.asked = k.first.Who
	ctx, end := context.WithCancelCause(context.Background())
	a := &acquisition{
		Context: ctx, end: end, queue: k, done: make(chan struct{}),
		options: h.options(k, k.asked),
	}
	if !k.unlimited {
		a.first = k.until
	}
	k.acquisition = a
	return a
}

// options returns those of an acquisition for all waiters of a key.
func (h *handOver) options(k *keyQueue, owner string) Options {
	return Options{Owner: owner, OnWake: k.wake, Keep: h.bound.Keep > 0}
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
		// All waiters gave up at the same moment. The lease is released before the last waiter returns.
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

// Close releases the kept leases, and closes the inner locker.
func (h *handOver) Close() error {
	h.dropAll()
	if c, ok := h.inner.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

// Check checks the lock of the server.
func (h *handOver) Check(ctx context.Context, key string) error { return Check(ctx, h.inner, key) }

// Inspect returns the inner locker's state together with the waiters of this process, which the server does not know.
// The waiters that may still share the lease of this process follow its contender. The others come at the end of the
// list, where the next lease of this process would be. If Bound.Time is reached, fewer waiters share the lease than
// shown.
func (h *handOver) Inspect(ctx context.Context, key string) (State, error) {
	s, err := Inspect(ctx, h.inner, key)
	if err == nil {
		h.addLocal(&s, key)
	}
	return s, err
}

// InspectAll is Inspect for each of keys.
func (h *handOver) InspectAll(ctx context.Context, keys []string) ([]State, error) {
	states, err := InspectAll(ctx, h.inner, keys)
	for i := range states {
		h.addLocal(&states[i], keys[i])
	}
	return states, err
}

// addLocal adds the callers of this process that hold key or wait for it.
func (h *handOver) addLocal(s *State, key string) {
	shard := h.queues.of(key)
	defer shard.mu.Unlock()
	k, busy := shard.keys[key]
	if !busy {
		return
	}
	local := k.waiters()
	at, share := len(s.Waiters), 0
	if b := k.batch; b != nil {
		// If the lease has been lost since, the server reports another holder, with another fence.
		if s.Holder != nil && s.Holder.Fence == b.lease.Fence() {
			s.Holder.Who, s.Holder.Since, s.Holder.Kept = k.holder.Who, k.holder.Since, k.kept == b
			if s.Holder.Fence != NoFence {
				s.Holder.Fence += Fence(b.holders - 1)
			}
			at = 0
			if !b.retired {
				share = h.bound.Holders - b.holders
			}
		}
	} else {
		// The lease is being acquired for the first waiter, or for a caller in its own goroutine.
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
		} else if s.Holder != nil && s.Holder.Who == k.asked { // granted, but the reply has not arrived yet
			s.Holder.Who = ours.Who
			at, share = 0, h.bound.Holders-1
		} // otherwise the request has not reached the server yet
	}
	share = min(max(share, 0), len(local))
	s.Waiters = slices.Concat(s.Waiters[:at:at], local[:share], s.Waiters[at:], local[share:])
}

// Evict calls the inner locker's Evict. All local holders of the evicted process lose their leases.
func (h *handOver) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, h.inner, key)
}
