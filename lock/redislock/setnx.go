package redislock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
)

// This file has the whole algorithm. The other files add:
//
//	acquire.lua, release.lua  steps 1 and 4 at the server; acquire.lua also issues the fence
//	redislock.go      attempt.request takes back a request without a reply, which the server may still execute
//	cleanup.go        repeats a release without a reply in the background, so that no orphaned key stays
//	../keepalive.go   reports the loss of the lease by the holder's own clock before the server frees the key
//	replicas.go       can make an acquisition count only after some replicas have acknowledged it
//	inspect.go        Inspect, Evict and Keys
//	setnx_variant.go  the options, and what the handwritten variants share

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
)

// SetNX is SET NX PX with a random value, released by compare-and-delete: https://redis.io/docs/latest/commands/set/
// ("Patterns").
//
//  1. If the key does not exist, set it to a value that no other try uses, with a time limit.
//  2. If it exists, sleep for a random time and go back to 1.
//  3. Rely on the key until its time limit, counted from before the request of step 1 was sent.
//  4. To release, delete the key if it still has the value of step 1.
//
// Round trips: 2 uncontended (acquire 1, release 1), even with Replicas; contended 1 for every try. Polling is not
// fair: the first caller to try after the release gets the key.
//
// Promises: exclusion while no lease runs out; the holder's lease reports when it runs out; a fence, so that the store
// refuses the late write of a holder that did not notice the end in time. It does not promise renewal (work that is
// longer than Lease loses the key), fairness, or to survive a fail-over to a replica that did not have the key yet.
// [Replicas] make such a loss less likely. After such a fail-over the fence still grows, because it is derived from the
// clock.
type SetNX struct {
	server
	o                            SetNXOptions
	acquireScript, releaseScript *redisscript.Script
}

// NewSetNX returns a SetNX on c. Close it when all leases have ended. If an option is invalid, Acquire returns an error
// that names it.
func NewSetNX(c redis.UniversalClient, o SetNXOptions) *SetNX {
	o.fill()
	return &SetNX{
		server: server{
			c, "lock", []string{"", ":fence"}, readByScript, o.Lease, o.Replicas, newCleanup(), o.check(),
		},
		o:             o,
		acquireScript: redisscript.New(acquireSource),
		releaseScript: redisscript.New(releaseSource),
	}
}

// Promise is what it promises with the defaults of its options.
func (*SetNX) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 10 * time.Second,
	}
}

// Acquire tries until ctx ends, or once with TryOnce.
func (s *SetNX) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := s.mayAcquire(ctx, key); err != nil {
		return nil, err
	}
	return poll(ctx, s.cleanup, o, backoff(), func(ctx context.Context) (*lock.Lease, error) {
		return s.try(ctx, key, o)
	})
}

// try is steps 1 and 3. Every try has a new value, so that a late release of this one cannot delete the key of the
// next.
func (s *SetNX) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a := s.attempt(key, o)
	sent := time.Now()
	fence, err := a.request(ctx)
	switch {
	case err != nil:
		return nil, err
	case leaseOver(sent, s.o.Lease):
		detached(ctx, a.free)
		return nil, &lock.HeldError{Key: key}
	}
	return hold(key, fence, sent, s.o.Lease, a.free), nil
}

// attempt prepares the scripts of steps 1 and 4 with their keys and arguments.
func (s *SetNX) attempt(key string, o lock.Options) *attempt {
	names, value := s.names(key), newValue(o)
	lease, life := s.o.Lease.Milliseconds(), fenceLife.Milliseconds()
	return &attempt{
		server: &s.server, options: o, key: key, value: value,
		acquire: call{s.acquireScript, names, []any{value, lease, life}},
		release: call{s.releaseScript, names[:1], []any{value}},
	}
}

// hold returns the lease of a granted key. It is not renewed. Its Release calls free.
func hold(
	key string, f lock.Fence, sent time.Time, lease time.Duration, free func(context.Context) error,
) *lock.Lease {
	l, _ := lock.NewLease(key, f, free)
	l.KeepAlive(sent, lock.Renewal{TTL: lease})
	return l
}

// poll is step 2. It tries until there is a lease, ctx ends, or a try fails for another reason than a held key. With
// TryOnce it tries once.
func poll(
	ctx context.Context, c *cleanup, o lock.Options, pause func() time.Duration,
	try func(context.Context) (*lock.Lease, error),
) (*lock.Lease, error) {
	ctx, stop := c.Wait(ctx)
	defer stop()
	var held error // the last answer
	for {
		lease, err := try(ctx)
		if err == nil {
			return lease, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return nil, errors.Join(held, err)
		}
		held = err
		if o.TryOnce {
			return nil, held
		}
		if err := driver.Sleep(ctx, pause()); err != nil {
			return nil, errors.Join(held, err)
		}
	}
}

// backoff returns pauses that double from 2 to 50 ms. The actual pause is random, from half of that on, so that the
// waiters do not all try at the same time.
func backoff() func() time.Duration {
	next := 2 * time.Millisecond
	return func() time.Duration {
		pause := next
		next = min(2*next, 50*time.Millisecond)
		return pause/2 + rand.N(pause/2+1)
	}
}
