package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
)

// A broken lock, and the clauses that must reject it. Every Locker of open's calls is the same lock.
type broken struct {
	name    string
	open    func() lock.Locker
	rejects []string
}

// A lockerFunc is the Acquire of a lock.
type lockerFunc func(context.Context, string, lock.Options) (*lock.Lease, error)

func (f lockerFunc) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return f(ctx, key, o)
}

// spoiled is broken with another Acquire than that of a right lock.
func spoiled(name string, spoil func(right lockerFunc) lockerFunc, rejects ...string) broken {
	l := spoil(new(local.Mutex).Acquire)
	return broken{name, func() lock.Locker { return l }, rejects}
}

// again returns another lease of what inner has, with that fence.
func again(inner *lock.Lease, err error, f lock.Fence) (*lock.Lease, error) {
	if err != nil {
		return nil, err
	}
	lease, _ := lock.NewLease(inner.Key(), f, func(context.Context) error { return inner.Release() })
	return lease, nil
}

// crowded claims that its fences have room for others.
type crowded struct {
	local.Mutex
	last atomic.Uint64
}

func (*crowded) FenceRange() uint64 { return 64 }

func (c *crowded) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	inner, err := c.Mutex.Acquire(ctx, key, o)
	return again(inner, err, lock.Fence(c.last.Add(1)))
}

// brokenLocks end what they leave behind with life.
func brokenLocks(life context.Context) []broken {
	handed := lock.HandOver(new(crowded), lock.Bound{Time: time.Minute})
	return []broken{
		{
			"excludes nobody",
			func() lock.Locker { return &local.None{} },
			[]string{"Exclusion", "TryOnce", "BoundedWait", "Handover", "Release", "Fences", "Reentry"},
		},
		{"fences without room for a hand-over", func() lock.Locker { return handed }, []string{"Fences"}},
		spoiled("one lock for all keys", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, _ string, o lock.Options) (*lock.Lease, error) {
				return right(ctx, "the only one", o)
			}
		}, "Keys"),
		spoiled("a waiter that gives up stays in the queue", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				if o.TryOnce {
					return right(ctx, key, o)
				}
				got := make(chan *lock.Lease, 1)
				go func() { // the ghost: it takes its turn although nobody waits for it
					lease, _ := right(life, key, o)
					got <- lease
				}()
				select {
				case lease := <-got:
					return lease, nil
				case <-ctx.Done():
					return nil, errors.Join(lock.ErrHeld, context.Cause(ctx))
				}
			}
		}, "BoundedWait", "CancelledWait"),
		spoiled("a dead context keeps its key", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				lease, err := right(context.WithoutCancel(ctx), key, o)
				if err == nil && ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return lease, err
			}
		}, "DeadContext"),
		spoiled("a lease that is over when it begins", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				lease, err := right(ctx, key, o)
				if err == nil {
					_ = lease.Release()
				}
				return lease, err
			}
		}, "Done"),
		spoiled("frees an abandoned key", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				inner, err := right(ctx, key, o)
				lease, err := again(inner, err, 1)
				if err == nil {
					lease.Linger(time.Nanosecond)
				}
				return lease, err
			}
		}, "Panic", "Unknown"),
		spoiled("takes any key", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				return right(ctx, "key "+key[:min(len(key), 100)], o)
			}
		}, "Invalid"),
		spoiled("serves the last one first", func(right lockerFunc) lockerFunc {
			return func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				for {
					lease, err := right(ctx, key, lock.Options{TryOnce: true})
					if err == nil || o.TryOnce {
						return lease, err
					}
					select {
					case <-ctx.Done():
						return nil, errors.Join(err, context.Cause(ctx))
					case <-time.After(time.Duration(1+time.Now().UnixNano()%7) * time.Millisecond):
					}
				}
			}
		}, "FIFO"),
	}
}
