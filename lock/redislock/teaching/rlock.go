package teaching

import (
	"context"
	"errors"
	"strconv"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock/internal/request"
)

// This file is the algorithm of RLock, from acquire to release. rlock_enter.lua, rlock_leave.lua and rlock_renew.lua
// are its steps at the server. rlock_options.go passes messages on to the callers.

// Acquire tries, sleeps and tries again until ctx ends, or tries once with TryOnce.
func (r *RLock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	b := r.listen(key)
	defer r.unlisten(key, b)
	var hearing *request.Hearing
	try := func(ctx context.Context) (*lock.Lease, error) {
		hearing = r.releases.Current() // before the request, so that no later release is missed
		lease, err := r.try(ctx, key, o)
		if err != nil && !errors.Is(err, lock.ErrHeld) {
			b.ring() // a message may have woken us: pass it on to another waiter
		}
		return lease, err
	}
	return r.server.Cleanup.Poll(ctx, key, o, try, func(ctx context.Context, held error) error {
		return r.sleep(ctx, hearing, b, o, held)
	})
}

// sleep returns when the caller must try again: when a message woke it, when messages may have been lost, or when the
// holder's lease has run out.
func (r *RLock) sleep(
	ctx context.Context, hearing *request.Hearing, b *bell, o lock.Options, held error,
) error {
	if !hearing.Confirmed() {
		return r.releases.Await(ctx, hearing)
	}
	remaining := request.Recheck // if the key has no time limit: another program has changed it
	if h, is := errors.AsType[*lock.HeldError](held); is && h.Remaining > 0 {
		remaining = h.Remaining
	}
	timer := time.NewTimer(remaining)
	defer timer.Stop()
	select {
	case <-b.rung:
		o.Woken()
	case <-hearing.Over():
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func (r *RLock) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Every try has a new value, so that a late release of this one cannot delete the key of the next.
	a := r.attempt(key, o)
	_, sent, err := a.Request(ctx)
	if err != nil {
		return nil, err
	}
	return r.hold(a, sent), nil
}

func (r *RLock) attempt(key string, o lock.Options) *request.Attempt {
	names := r.server.Names(key)
	value := r.process + ":" + strconv.FormatUint(r.serial.Add(1), 10) + " " + o.Owner
	return &request.Attempt{
		Server: r.server, Options: o, Key: key, Value: value,
		Acquire: request.Call{Script: enterScript, Keys: names, Args: []any{value, r.server.Lease.Milliseconds()}},
		Release: request.Call{Script: leaveScript, Keys: names, Args: []any{value}},
	}
}

// hold returns the lease of a granted lock. The lease is renewed, unless a LeaseTime is set.
func (r *RLock) hold(a *request.Attempt, sent time.Time) *lock.Lease {
	l, _ := lock.NewLease(a.Key, lock.NoFence, a.Free)
	k := lock.Renewal{TTL: a.Lease}
	if r.o.LeaseTime == 0 {
		k.Every = a.Lease / 3
		k.Renew = func(ctx context.Context) error {
			return request.Ownership(r.renewal(a).Run(ctx, a.Client).Int())
		}
	}
	l.KeepAlive(sent, k)
	return l
}

func (r *RLock) renewal(a *request.Attempt) request.Call {
	return request.Call{Script: renewScript, Keys: a.Acquire.Keys, Args: a.Acquire.Args}
}
