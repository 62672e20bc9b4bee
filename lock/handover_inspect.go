package lock

import (
	"context"
	"slices"
)

// Inspect is the inner locker's answer with the waiters of this process in it, who are known by name here only. They stand behind the one
// that contends for all of them: first as many as may still share its lease, the others at the end, where the next lease of this
// process would be. A bound that is reached by time makes it fewer.
func (h *handOver) Inspect(ctx context.Context, key string) (Standing, error) {
	s, err := Inspect(ctx, h.inner, key)
	if err != nil {
		return s, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r, busy := h.keys[key]; busy {
		h.fill(&s, r)
	}
	return s, nil
}

func (h *handOver) fill(s *Standing, r *room) {
	local := make([]Contender, len(r.waiters))
	for i, w := range r.waiters {
		local[i] = Contender{Who: w.owner, Since: w.since}
	}
	at, share := len(s.Waiters), 0
	if t := r.tenure; t != nil {
		// The lease may have been lost to another since: then its fence is not the holder's.
		if s.Holder != nil && s.Holder.Fence == t.lease.Fence() {
			s.Holder.Who, s.Holder.Since = r.owner, r.since
			if s.Holder.Fence != NoFence {
				s.Holder.Fence += Fence(t.holders - 1)
			}
			at = 0
			if !t.retired {
				share = h.bound.Holders - t.holders
			}
		}
	} else if i := slices.IndexFunc(s.Waiters, func(c Contender) bool { return c.Who == r.remote }); i >= 0 {
		if s.Waiters[i].Since.IsZero() {
			s.Waiters[i].Since = r.since
		}
		at, share = i+1, h.bound.Holders-1
	} else if s.Holder != nil && s.Holder.Who == r.remote {
		at, share = 0, h.bound.Holders-1 // granted, and not yet here
	}
	share = min(max(share, 0), len(local))
	s.Waiters = slices.Concat(s.Waiters[:at:at], local[:share], s.Waiters[at:], local[share:])
}

// Evict passes through: whichever process has the lease, its local holders lose it with it.
func (h *handOver) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, h.inner, key)
}
