package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"
)

// A Bound limits how long one process may hand a lease from holder to holder. A zero field means its default.
type Bound struct {
	Holders int           // local holders of one lease; default 16, and never more than the locker has fences for
	Time    time.Duration // time since the lease was acquired; default 50 ms. The holder that exceeds it is the last
}

// HandOver lets the callers in this process that want the same key queue here, first come, first served. One of them
// at a time, the contender, is at l, in its own goroutine and with its own ctx and options. The lease that it gets goes
// to the first of the queue, and each holder hands it to the next without a round trip, until the bound is reached or
// nobody waits. Then the last holder releases it at l. So with contention each holder pays 1/Holders of l's round
// trips. No lease is kept while nobody works.
//
// Every holder has its own Lease, which ends when l's lease is lost, and a larger fence than the holder before. A lease
// that is lost, abandoned or no longer renewed is not handed on. After a loss the next waiter asks l for another lease.
// The lost one stays its holder's to release, who may hang; otherwise it ends by itself. Bound.Time should be much
// shorter than l's lease, because each holder gets only the rest of it, and of its longest hold.
//
// Between processes HandOver is as fair as l, but to processes, not to callers, and in batches: up to Holders callers
// of one process may pass an earlier waiter of another one. If the contender gives up, the process loses its place at
// l, and the next contender starts at the end of l's queue. It is the first or the newest waiter, whichever can wait
// longer. If it were always the first, then in a crowd of callers that give up, each would be at l only until it gives
// up in its turn, a moment later, and the process would never get a lease. If l fails, only the contender gets the
// error. With TryOnce, a caller that finds another one here is told ErrHeld, although that one may still be asking.
//
// Each holder needs a fence of its own. A driver whose fences leave room for them has a method FenceRange (see package
// driver). Under any other Locker a lease with a fence is not handed on.
func HandOver(l Locker, b Bound) Locker {
	b.Holders = cmp.Or(b.Holders, 16)
	r, ranges := l.(interface{ FenceRange() uint64 })
	if ranges {
		b.Holders = int(min(uint64(b.Holders), r.FenceRange()))
	}
	b.Time = cmp.Or(b.Time, 50*time.Millisecond)
	return &handOver{inner: l, bound: b, ranges: ranges}
}

// A handOver has one turn for each key that a caller holds or wants. The turn is always in exactly one place: with the
// contender, with a holder, or on its way to a waiter, in the waiter's channel. Whoever has it passes it on exactly
// once, with [handOver.handOn] or [handOver.appoint]. The turn moves under the mutex of queues. Nothing else
// happens under that mutex: no call of inner, and none of what a lease calls when it ends.
type handOver struct {
	inner  Locker
	bound  Bound
	ranges bool // inner leaves room for a fence of each holder
	queues keyQueues
}

// A batch is one lease of inner and those who hold it in turn. The mutex of queues guards it.
type batch struct {
	lease   *Lease
	until   time.Time // after it the lease is not handed on
	holders int       // up to the present one
	retired bool      // stopRenewing was called: the lease is not handed on
}

func (h *handOver) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acquire lock %q: %w", key, context.Cause(ctx))
	}
	h.queues.mu.Lock()
	k, busy := h.queues.keys[key]
	switch {
	case !busy:
		k = h.queues.open(key)
	case o.TryOnce:
		defer h.queues.mu.Unlock()
		return nil, &HeldError{Key: key, Holder: k.ahead()}
	}
	w := k.join(o)
	w.until, w.limited = ctx.Deadline()
	contends := !busy
	if contends {
		k.contender = w
	}
	h.queues.mu.Unlock()
	for {
		if contends {
			if err := h.contend(ctx, k, w, o); err != nil {
				return nil, err
			}
		}
		select {
		case turn := <-w.granted:
			if turn == toHold {
				return h.hold(k, k.batch), nil
			}
			contends = true
		case <-ctx.Done():
			h.giveUp(k, w)
			return nil, errors.Join(&HeldError{Key: key}, context.Cause(ctx))
		}
	}
}

// contend asks inner for a lease in the name of w, and gives it to the first waiter, who may be another one. If inner
// fails or panics, w leaves, and the turn goes on without it.
func (h *handOver) contend(ctx context.Context, k *keyQueue, w *waiter, o Options) error {
	failed := true
	defer func() {
		if failed {
			h.queues.mu.Lock()
			k.leave(w)
			h.queues.mu.Unlock()
			h.appoint(k)
		}
	}()
	lease, err := h.inner.Acquire(ctx, k.key, o)
	if err != nil {
		return err
	}
	failed = false
	now := time.Now()
	b := &batch{lease: lease, until: now.Add(h.bound.Time), holders: 1}
	// A process that was stopped may find the end of a lease before the lease does.
	if end := lease.Until(); !end.IsZero() && end.Before(b.until) {
		b.until = end
	}
	h.queues.mu.Lock()
	k.batch = b
	k.pass(now)
	h.queues.mu.Unlock()
	return nil
}

// giveUp ends the wait of w. A turn that came at the same moment goes on.
func (h *handOver) giveUp(k *keyQueue, w *waiter) {
	h.queues.mu.Lock()
	k.leave(w) // from now on no turn comes
	h.queues.mu.Unlock()
	select {
	case turn := <-w.granted:
		if turn == toHold {
			_ = h.handOn(k, k.batch)
		} else {
			h.appoint(k)
		}
	default:
	}
}

// handOn passes the turn with the lease of b to the first waiter, or releases the lease and passes the turn without it:
// if the next contender asked before the release, the process would wait for itself. The error is that of the release.
func (h *handOver) handOn(k *keyQueue, b *batch) error {
	h.queues.mu.Lock()
	passed := k.waiting > 0 && h.mayPass(b)
	if passed {
		b.holders++
		k.pass(time.Now())
	}
	h.queues.mu.Unlock()
	if passed {
		return nil
	}
	err := b.lease.Release()
	h.appoint(k)
	return err
}

// mayPass reports whether another holder may have the lease of b.
func (h *handOver) mayPass(b *batch) bool {
	fenced := h.ranges || b.lease.fence == NoFence
	within := b.holders < h.bound.Holders && time.Now().Before(b.until)
	return fenced && within && !b.retired && b.lease.Err() == nil
}

// appoint passes the turn without a lease: it makes a waiter the contender, or closes the queue. See HandOver for the
// choice.
func (h *handOver) appoint(k *keyQueue) {
	h.queues.mu.Lock()
	defer h.queues.mu.Unlock()
	if k.waiting == 0 {
		h.queues.close(k)
		return
	}
	contender := k.first
	if k.last.outwaits(k.first) {
		contender = k.last
	}
	k.appoint(contender)
}

// A share is what one local holder has of a batch. The mutex of queues guards over.
type share struct {
	Lease
	h    *handOver
	k    *keyQueue
	b    *batch
	over bool // the holder no longer has the turn
}

// hold begins a holder's share of b. The lease may be lost already; then atEnd calls lost at once.
func (h *handOver) hold(k *keyQueue, b *batch) *Lease {
	s := &share{h: h, k: k, b: b}
	s.key, s.of = k.key, s
	if b.lease.fence != NoFence {
		s.fence = b.lease.fence + Fence(b.holders-1)
	}
	s.held, s.end = context.WithCancelCause(context.Background())
	b.lease.atEnd(s.lost)
	return &s.Lease
}

// takeTurn takes the turn from the holder, and reports whether the holder still had it.
func (s *share) takeTurn() bool {
	s.h.queues.mu.Lock()
	defer s.h.queues.mu.Unlock()
	had := !s.over
	s.over = true
	return had
}

// lost is called at the end of the batch's lease. If this holder still has the turn, the lease was lost. It is not
// released here: its holder may have sent a write, and the driver may be waiting for this call.
func (s *share) lost() {
	had := s.takeTurn()
	if had {
		s.ends(s.b.lease.Err())
		s.h.appoint(s.k)
	}
}

// retire stops the renewal, unless the lease is another holder's by now.
func (s *share) retire() {
	s.h.queues.mu.Lock()
	over := s.over
	if !over {
		s.b.retired = true
	}
	s.h.queues.mu.Unlock()
	if !over {
		s.b.lease.stopRenewing()
	}
}

func (s *share) release() error {
	had := s.takeTurn()
	if !had {
		return s.b.lease.Release()
	}
	return s.h.handOn(s.k, s.b)
}

func (s *share) abandon() {
	had := s.takeTurn()
	s.b.lease.Abandon()
	if had {
		s.h.appoint(s.k)
	}
}
