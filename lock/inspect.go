package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Contender holds a key or waits for it. Fields that the server does not report are zero.
type Contender struct {
	Who       string        // Options.Owner, such as "instance/request-id"
	Since     time.Time     // when the holder got the key, or the waiter came, by the clock that the lock uses for it
	Remaining time.Duration // of a holder: time until the server frees the key if the lease is not renewed
	Fence     Fence         // of a holder
}

// A State is the holder of a key and its waiters at one moment. It may have changed before the caller reads it.
type State struct {
	Holder  *Contender  // nil: none
	Waiters []Contender // in the order in which they will get the key, as far as that is known
	Local   bool        // only callers in this process are included
}

// Inspect returns who holds key and who waits for it. It sends one request or a few. The state may have changed when
// the caller gets it: a caller that needs the key must acquire it. A process that uses [HandOver] appears as only one
// waiter to other processes.
//
// The error matches ErrDown if the server did not answer, and errors.ErrUnsupported if l, or what it wraps, cannot
// tell.
func Inspect(ctx context.Context, l Locker, key string) (State, error) {
	states, err := InspectAll(ctx, l, []string{key})
	if err != nil {
		return State{}, err
	}
	return states[0], nil
}

// InspectAll is Inspect for each of keys, in their order, in far fewer round trips if the server can do that. After an
// error it returns the states of the first keys, or of none.
func InspectAll(ctx context.Context, l Locker, keys []string) ([]State, error) {
	i, can := l.(interface {
		InspectAll(context.Context, []string) ([]State, error)
	})
	if !can {
		return nil, fmt.Errorf("inspect: %w by this lock", errors.ErrUnsupported)
	}
	return i.InspectAll(ctx, keys)
}

// Evict takes key away from its holder, if there is one, lets the next waiter acquire it, and returns a fence. The
// fence is larger than that of every holder so far, and not larger than that of any later holder. Once a store has
// seen it, the store refuses every write of the evicted holder.
//
// The evicted holder does not notice at once. Its lease ends with ErrTaken or ErrExpired at the next renewal or, if it
// is not renewed, when it runs out. Until then the holder continues its work, and only the fence stops its writes.
//
// After an error that matches ErrDown it is not known whether a holder was evicted. A retry may evict the next holder.
// If l, or what it wraps, cannot evict, the error matches errors.ErrUnsupported.
func Evict(ctx context.Context, l Locker, key string) (Fence, error) {
	e, can := l.(interface {
		Evict(context.Context, string) (Fence, error)
	})
	if !can {
		return NoFence, fmt.Errorf("evict: %w by this lock", errors.ErrUnsupported)
	}
	return e.Evict(ctx, key)
}

// Check tries whether the server permits what holders and waiters of l need: call it when a program starts, with a key
// that no caller uses. The error matches ErrDenied if the server refuses a request for good. A lock that cannot try
// more is acquired and released once.
func Check(ctx context.Context, l Locker, key string) error {
	c, can := l.(interface {
		Check(context.Context, string) error
	})
	if can {
		return c.Check(ctx, key)
	}
	lease, err := l.Acquire(ctx, key, Options{TryOnce: true, Owner: "check"})
	if err != nil {
		return err
	}
	return lease.Release()
}

// A wrapped locker can still be inspected and evicted.

func (o *observed) InspectAll(ctx context.Context, keys []string) ([]State, error) {
	return InspectAll(ctx, o.Locker, keys)
}

func (o *observed) Check(ctx context.Context, key string) error { return Check(ctx, o.Locker, key) }

func (o *observed) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, o.Locker, key)
}

// Close closes the inner locker.
func (h *handOver) Close() error {
	if c, ok := h.inner.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

func (h *handOver) Check(ctx context.Context, key string) error { return Check(ctx, h.inner, key) }

// Evict ends the lease of the local holder, if it was this process's.
func (h *handOver) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, h.inner, key)
}

// Keys lists the keys of the inner locker; see driver.Lister.
func (h *handOver) Keys(ctx context.Context) ([]string, error) {
	if l, lists := h.inner.(interface {
		Keys(context.Context) ([]string, error)
	}); lists {
		return l.Keys(ctx)
	}
	return nil, fmt.Errorf("list: %w by this lock", errors.ErrUnsupported)
}

// InspectAll returns the inner locker's states with the callers of this process, of which the server knows only the
// contender. See addLocal.
func (h *handOver) InspectAll(ctx context.Context, keys []string) ([]State, error) {
	states, err := InspectAll(ctx, h.inner, keys)
	for i := range states {
		h.addLocal(&states[i], keys[i])
	}
	return states, err
}

// addLocal puts the local holder in the place of the contender that acquired the lease, and the local waiters in the
// place of the contender at the server. Those that will not share its lease come at the end. If Bound.Time is reached,
// fewer share it than shown.
func (h *handOver) addLocal(s *State, key string) {
	h.queues.mu.Lock()
	defer h.queues.mu.Unlock()
	k, busy := h.queues.keys[key]
	if !busy {
		return
	}
	local := k.waiters()
	at, sharing := len(s.Waiters), 0
	contender := slices.IndexFunc(s.Waiters, k.contends)
	switch b := k.batch; {
	case b != nil && (s.Holder == nil || s.Holder.Fence != b.lease.fence):
		// The lease has been lost since: the server reports another holder, with another fence.
	case b != nil:
		s.Holder.Who, s.Holder.Since = k.holder.Who, k.holder.Since
		if s.Holder.Fence != NoFence {
			s.Holder.Fence += Fence(b.holders - 1)
		}
		at = 0
		if !b.retired {
			sharing = h.bound.Holders - b.holders
		}
	case contender >= 0:
		s.Waiters = slices.Delete(s.Waiters, contender, contender+1)
		at, sharing = contender, h.bound.Holders
	case s.Holder != nil && k.contends(*s.Holder) && len(local) > 0:
		// The lease is on its way to the first of the queue.
		s.Holder.Who = local[0].Who
		local = local[1:]
		at, sharing = 0, h.bound.Holders-1
	default:
		// The request has not reached the server yet: the contender waits nowhere.
		local = slices.DeleteFunc(local, k.contends)
	}
	sharing = min(sharing, len(local))
	s.Waiters = slices.Concat(s.Waiters[:at], local[:sharing], s.Waiters[at:], local[sharing:])
}
