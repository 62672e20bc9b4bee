package lock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// This file is the part of HandOver for a lease that no local caller has: its batch is kept for the next caller. See
// HandOver, "Kept leases".

// keeping is what a handOver needs to end its kept leases.
type keeping struct {
	closed  atomic.Bool    // no lease is kept any more
	release sync.WaitGroup // of leases that were kept. Add is called under a shard's mutex, and not after closed
}

// mayKeep reports whether the batch may go on because no other process wants the key.
func (h *handOver) mayKeep(b *batch) bool {
	wanted := b.lease.wanted
	return wanted != nil && wanted.Err() == nil && b.lease.Err() == nil && !b.retired &&
		b.holders < b.lease.room && time.Since(b.since) < h.bound.Keep &&
		(b.lease.lasts == nil || b.lease.lasts())
}

// keep keeps a batch that has lost its last holder and may be kept. It returns false after Close. The shard is locked.
func (h *handOver) keep(k *keyQueue, b *batch) bool {
	if h.kept.closed.Load() {
		return false
	}
	k.kept = b
	if b.unkeep == nil {
		drop := func() { h.drop(k, b) }
		unwanted, old := context.AfterFunc(b.lease.wanted, drop), time.AfterFunc(h.bound.Keep-time.Since(b.since), drop)
		b.unkeep = func() {
			unwanted()
			old.Stop()
		}
	}
	return true
}

// take returns the kept batch of a key to a new holder; nil: there is none, or it is about to be dropped. The shard is
// locked.
func (h *handOver) take(k *keyQueue, o Options) *batch {
	b := k.kept
	if b == nil || !h.mayKeep(b) {
		return nil
	}
	k.kept, k.holder.Who = nil, o.Owner
	return b
}

// drop releases a batch if it is kept, and acquires the next lease if callers have come meanwhile.
func (h *handOver) drop(k *keyQueue, b *batch) {
	k.shard.mu.Lock()
	ours := k.kept == b
	if ours {
		k.kept = nil
		h.kept.release.Add(1)
	}
	k.shard.mu.Unlock()
	if ours {
		defer h.kept.release.Done()
		_ = b.release()
		h.acquireNext(k)
	}
}

// dropAll releases all kept leases. It returns when they are released, or after ReleaseTimeout.
func (h *handOver) dropAll() {
	h.kept.closed.Store(true)
	for i := range h.queues {
		s := &h.queues[i]
		s.mu.Lock()
		for _, k := range s.keys {
			if b := k.kept; b != nil {
				h.kept.release.Go(func() { h.drop(k, b) })
			}
		}
		s.mu.Unlock()
	}
	h.kept.release.Wait()
}
