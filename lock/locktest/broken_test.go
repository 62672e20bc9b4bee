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
	open    func() lock.Locker // nil: it is a trial
	flaws   flaws              // of the trial
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
	return broken{name: name, open: func() lock.Locker { return l }, rejects: rejects}
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

// brokenLocks are locks of this process. Every Locker of open's calls is the same lock. They end what they leave behind
// with life.
func brokenLocks(life context.Context) []broken {
	handed := lock.HandOver(new(crowded), lock.Bound{Time: time.Minute})
	return []broken{
		{
			name: "excludes nobody", open: func() lock.Locker { return &local.None{} },
			rejects: []string{"Exclusion", "TryOnce", "BoundedWait", "Handover", "Release", "Fences", "Reentry"},
		},
		{
			name: "fences without room for a hand-over", open: func() lock.Locker { return handed },
			rejects: []string{"Fences"},
		},
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

// brokenTrials are contended for by several processes. Each has one thing wrong.
func brokenTrials() []broken {
	inProcess := func() lock.Locker { return &local.Mutex{} }
	return []broken{
		{"excludes only its own process", inProcess, flaws{}, []string{"Exclusion"}},
		{"the key stays for ever", nil, flaws{noExpiry: true}, []string{"Crash", "Frozen", "Expiry", "Unknown"}},
		{"returns when its client does", nil, flaws{patient: true}, []string{"Standstill"}},
		{"its renewals are pings", nil, flaws{pings: true}, []string{"Renewal", "Taken"}},
		{"gives up before its wait is over", nil, flaws{impatient: true}, []string{"StatementLimit"}},
		{"counts its lease from the reply", nil, flaws{countsLate: true}, []string{"Expiry"}},
		{"believes a reply whose lease is over", nil, flaws{believes: true}, []string{"Expiry"}},
		{"never tells of the loss", nil, flaws{noLoss: true}, []string{"Expiry", "Frozen", "Restart", "Standstill"}},
		{"deletes the key whoever has it", nil, flaws{blindDelete: true}, []string{"Owner"}},
		{"one fence for all", nil, flaws{sameFence: true}, []string{"Exclusion", "Frozen", "Crash"}},
		{"a queue that nobody leaves", nil, flaws{tickets: true}, []string{"Crash"}},
		{"believes whatever it was told", nil, flaws{mail: true}, []string{"FrozenWaiter"}},
		{"what failed is not taken back", nil, flaws{noCleanup: true}, []string{"Cuts", "CrashPoints", "Late"}},
		{"errors as the client has them", nil, flaws{rawErrors: true}, []string{"Cuts", "Refusals", "Denied"}},
		{"its waiters do not hear that it is closed", nil, flaws{deaf: true}, []string{"Closed"}},
		{"tells no fence", nil, flaws{fenceless: true}, []string{"Inspect"}},
		{"its release hides the loss", nil, flaws{silent: true}, []string{"Evicted"}},
		{"every acquisition leaves a key", nil, flaws{litter: true}, []string{"Traces"}},
		{"every acquisition leaves a goroutine", nil, flaws{ghosts: true}, []string{"Traces"}},
	}
}
