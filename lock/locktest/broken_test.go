package locktest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
)

// A broken lock, and the clauses that must reject it.
type broken struct {
	name    string
	open    func() lock.Locker
	rejects []string
}

// wrap makes a broken lock out of a right one: every Locker that open returns shares mutex.
func wrap(
	acquire func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error),
) func() lock.Locker {
	m := &local.Mutex{}
	return func() lock.Locker {
		return lockerFunc(func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
			return acquire(m, ctx, key, o)
		})
	}
}

// crowded claims that its fences have room for others.
type crowded struct {
	local.Mutex
	last atomic.Uint64
}

func (*crowded) FenceRange() uint64 { return 64 }

func (c *crowded) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	inner, err := c.Mutex.Acquire(ctx, key, o)
	if err != nil {
		return nil, err
	}
	lease, _ := lock.NewLease(
		key, lock.Fence(c.last.Add(1)), func(context.Context) error { return inner.Release() },
	)
	return lease, nil
}

type lockerFunc func(context.Context, string, lock.Options) (*lock.Lease, error)

func (f lockerFunc) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return f(ctx, key, o)
}

// brokenLocks end what they leave behind with life.
func brokenLocks(life context.Context) []broken {
	constant := func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
		inner, err := m.Acquire(ctx, key, o)
		if err != nil {
			return nil, err
		}
		lease, _ := lock.NewLease(key, 1, func(context.Context) error { return inner.Release() })
		return lease, nil
	}
	return []broken{
		{
			"excludes nobody",
			func() lock.Locker { return &local.None{} },
			[]string{"Exclusion", "TryOnce", "BoundedWait", "Handover", "Release", "Fences", "Reentry"},
		},
		{
			"one lock for all keys",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				inner, err := m.Acquire(ctx, "the only one", o)
				if err != nil {
					return nil, err
				}
				lease, _ := lock.NewLease(key, 1, func(context.Context) error { return inner.Release() })
				return lease, nil
			}),
			[]string{"Keys"},
		},
		{"constant fence", wrap(constant), []string{"Fences"}},
		{"fences without room for a hand-over", func() func() lock.Locker {
			c := new(crowded)
			return func() lock.Locker { return lock.HandOver(c, lock.Bound{Time: time.Minute}) }
		}(), []string{"Fences"}},
		{
			"hides the cause of a wait that ended",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				lease, err := m.Acquire(ctx, key, o)
				if err != nil {
					return nil, lock.ErrHeld
				}
				return lease, nil
			}),
			[]string{"BoundedWait"},
		},
		{
			"waits although asked to try once",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				patient, cancel := context.WithTimeout(
					context.WithoutCancel(context.Background()), 200*time.Millisecond,
				)
				defer cancel()
				lease, err := m.Acquire(patient, key, lock.Options{Owner: o.Owner})
				if errors.Is(err, lock.ErrHeld) {
					return nil, context.DeadlineExceeded
				}
				return lease, err
			}),
			[]string{"TryOnce"},
		},
		{"a waiter that gives up stays in the queue", func() func() lock.Locker {
			m := &local.Mutex{}
			return func() lock.Locker {
				return lockerFunc(func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
					if o.TryOnce {
						return m.Acquire(ctx, key, o)
					}
					got := make(chan *lock.Lease, 1)
					go func() { // the ghost: it takes its turn although nobody waits for it
						lease, _ := m.Acquire(life, key, o)
						got <- lease
					}()
					select {
					case lease := <-got:
						return lease, nil
					case <-ctx.Done():
						return nil, errors.Join(lock.ErrHeld, context.Cause(ctx))
					}
				})
			}
		}(), []string{"BoundedWait", "CancelledWait"}},
		{"release frees whatever is there", func() func() lock.Locker {
			var q lock.Queue
			return func() lock.Locker {
				return lockerFunc(func(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
					if err := q.Enter(ctx, key, o); err != nil {
						return nil, err
					}
					// DEL without a look at the owner, and again at every call.
					lease, _ := lock.NewLease(
						key, 1, func(context.Context) error { q.Leave(key); q.Leave(key); return nil },
					)
					return lease, nil
				})
			}
		}(), []string{"Exclusion"}},
		{
			"a dead context keeps its key",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				lease, err := m.Acquire(context.WithoutCancel(ctx), key, o)
				if err == nil && ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				return lease, err
			}),
			[]string{"DeadContext"},
		},
		{
			"a lease that is over when it begins",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				lease, err := m.Acquire(ctx, key, o)
				if err == nil {
					_ = lease.Release()
				}
				return lease, err
			}),
			[]string{"Done"},
		},
		{
			"frees an abandoned key",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				inner, err := m.Acquire(ctx, key, o)
				if err != nil {
					return nil, err
				}
				lease, _ := lock.NewLease(key, 1, func(context.Context) error { return inner.Release() })
				lease.Linger(time.Nanosecond)
				return lease, nil
			}),
			[]string{"Panic", "Unknown"},
		},
		{
			"takes any key and any context",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				return m.Acquire(context.WithoutCancel(ctx), "key "+key[:min(len(key), 100)], o)
			}),
			[]string{"Invalid", "DeadContext"},
		},
		{
			"serves the last one first",
			wrap(func(m *local.Mutex, ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
				for {
					lease, err := m.Acquire(ctx, key, lock.Options{TryOnce: true})
					if err == nil || o.TryOnce {
						return lease, err
					}
					select {
					case <-ctx.Done():
						return nil, errors.Join(err, context.Cause(ctx))
					case <-time.After(time.Duration(1+time.Now().UnixNano()%7) * time.Millisecond):
					}
				}
			}),
			[]string{"FIFO"},
		},
	}
}
