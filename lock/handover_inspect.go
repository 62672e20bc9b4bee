package lock

import (
	"context"
	"slices"
)

// Inspect is the inner locker's answer with the waiters of this process in it, who are known by name here only. They stand behind the one
// that contends for all of them: first as many as may still share its lease, the others at the end, where the next lease of this
// process would be. A bound that is reached by time makes it fewer.
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
		// The one who will have the lease that is being acquired: the first of those who wait, or who tries once.
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
