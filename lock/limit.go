package lock

import (
	"context"
	"fmt"
	"sync/atomic"
)

// A Limit bounds how many callers wait for locks at a time, over all lockers and keys that it is put around. Each of
// them costs a goroutine and what its request holds, for as long as it waits: without a bound, whoever asks for long
// waits decides how much memory this process needs.
type Limit struct {
	most    int64
	waiting atomic.Int64
}

// NewLimit makes a Limit of that many callers; 0: no limit.
func NewLimit(most int) *Limit { return &Limit{most: int64(most)} }

// Waiting is how many callers wait now.
func (l *Limit) Waiting() int { return int(l.waiting.Load()) }

// Around is inner, except that an Acquire over the limit fails at once with an error that matches ErrOverloaded. A
// caller counts from its call to its return, also while it is asking for a key that nobody holds; one with NoWait,
// who tries once and is gone, does not.
func (l *Limit) Around(inner Locker) Locker { return &limited{inner, l} }

type limited struct {
	Locker
	limit *Limit
}

func (l *limited) Acquire(ctx context.Context, key string) (*Lease, error) {
	if l.limit.most == 0 || IsNoWait(ctx) {
		return l.Locker.Acquire(ctx, key)
	}
	defer l.limit.waiting.Add(-1)
	if l.limit.waiting.Add(1) > l.limit.most {
		return nil, fmt.Errorf("acquire lock %q: %w: %d wait for locks here already", key, ErrOverloaded, l.limit.most)
	}
	return l.Locker.Acquire(ctx, key)
}

// Inspect and Evict pass through.

func (l *limited) Inspect(ctx context.Context, key string) (Standing, error) {
	return Inspect(ctx, l.Locker, key)
}

func (l *limited) Evict(ctx context.Context, key string) (Fence, error) {
	return Evict(ctx, l.Locker, key)
}
