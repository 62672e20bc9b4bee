package redislock

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock/internal/request"
)

// This file is the algorithm of Watchdog, from acquire to release:
//
//  1. Enter: take the lock if it is free and nobody waits. Otherwise queue up.
//  2. Wait for the message that grants the lock.
//  3. If none comes within a second, go back to 1, but keep the place in the queue.
//  4. While the lock is held, renew it every third of the lease.
//  5. Leave: grant the lock to the oldest waiter and send the message to its process, or delete the key.
//
// The other files add:
//
//	enter.lua, leave.lua, renew.lua  the steps at the server
//	queue.lua, fence.lua         the queue, with the grant to a waiter, and the fence
//	notifier.go                  delivers the messages of step 5 to the waiters of this process
//	watchdog_options.go          the type, its promises and options; the scripts with their keys and arguments
//	redislock.go                 Replicas, Inspect and Evict
//	internal/request/request.go  takes back a request without a reply, which the server may still execute
//	internal/request/cleanup.go  repeats a release without a reply in the background, so that no orphaned key stays
//	../keepalive.go              renews, and reports a loss by the holder's own clock before the server frees the key
//	../handover.go               lets one process hand one lease from caller to caller (lock.HandOver)

// Acquire waits in the queue until it is granted the lock or ctx ends. With TryOnce it does not queue up.
func (w *Watchdog) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := w.server.Cleanup.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	ctx, stop := w.server.Cleanup.Wait(ctx)
	defer stop()
	a := w.attempt(key, o)
	c := &candidate{w: w, Attempt: a, me: w.notifier.add(a.Value)}
	defer w.notifier.remove(a.Value)
	l, over, err := c.ask(ctx) // step 1, in one round trip
	if over {
		return l, err
	}
	return c.wait(ctx)
}

type candidate struct {
	w *Watchdog
	*request.Attempt
	me         *waiter
	sent       time.Time        // time before the last request was sent
	hearing    *request.Hearing // the subscription before the last request
	subscribed bool             // it was confirmed before the last request
	held       error            // the last reply, if another caller holds the lock
}

// ask makes a request, and queues up unless the caller tries once. If over is true, it returns a lease or an error.
// Otherwise the caller must wait for another holder.
func (c *candidate) ask(ctx context.Context) (l *lock.Lease, over bool, err error) {
	w, number := c.w, uint64(0)
	if !c.Options.TryOnce {
		number = w.notifier.next(c.me)
	}
	c.hearing = w.notifier.Current()
	c.subscribed = c.hearing.Confirmed()
	fence, sent, err := w.request(ctx, c.Attempt, number)
	c.sent = sent
	switch {
	case err == nil:
		return c.hold(fence, 0), true, nil
	case !errors.Is(err, lock.ErrHeld), c.Options.TryOnce:
		return nil, true, errors.Join(c.held, err)
	}
	c.held = err
	return nil, false, nil
}

// wait is steps 2 and 3. It ends with ctx.
func (c *candidate) wait(ctx context.Context) (*lock.Lease, error) {
	for {
		fence, err := c.await(ctx)
		if err != nil {
			request.Detached(ctx, c.Free) // leave the queue, and release a lock that may have been granted
			return nil, errors.Join(c.held, err)
		}
		if fence != lock.NoFence && c.w.o.takes(time.Since(c.sent)) {
			return c.hold(fence, grantLease), nil
		}
		// No grant arrived, or it arrived so late that it may have expired. If the grant is still valid, the next
		// request finds it.
		if l, over, err := c.ask(ctx); over {
			return l, err
		}
	}
}

// await waits for a grant, and returns NoFence when it is time to repeat the request. The error is the cause of ctx, or
// that the server refuses the subscription. A waiter that did not hear its grant, because it was not subscribed or the
// subscription broke, finds it by the next request.
func (c *candidate) await(ctx context.Context) (lock.Fence, error) {
	if !c.subscribed {
		return lock.NoFence, c.w.notifier.Await(ctx, c.hearing)
	}
	timer := time.NewTimer(request.Recheck - rand.N(request.Recheck/4))
	defer timer.Stop()
	select {
	case fence := <-c.me.granted:
		c.Options.Woken()
		return fence, nil
	case <-timer.C:
		return lock.NoFence, nil
	case <-ctx.Done():
		return lock.NoFence, context.Cause(ctx)
	}
}

// hold returns the lease of a granted lock; see keep for first. It is step 4, and its Release is step 5.
func (c *candidate) hold(f lock.Fence, first time.Duration) *lock.Lease {
	w, a := c.w, c.Attempt
	l, _ := lock.NewLease(a.Key, f, a.Free)
	k := w.o.keep(first)
	k.Renew = func(ctx context.Context) error {
		reply, short := a.Grant(ctx, nil, w.renewal(a))
		return cmp.Or(request.Ownership(reply.Int()), short)
	}
	l.KeepAlive(c.sent, k)
	return l
}
