package redislock

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver/redisscript"
)

// RLock works like Redisson's RLock in its default form: a caller waits, is woken by a message, and renews the lease
// while it works. The lock is neither fair nor fenced. It exists to be compared with [Watchdog]. The algorithm is
// that of RedissonLock and RedissonBaseLock in https://github.com/redisson/redisson, version 4.7.0:
//
//   - The lock is a hash with one field, the holder, whose value counts how often the holder has entered. A script
//     enters if there is no hash, or one with our field, and sets the time limit. Otherwise it returns the remaining
//     time of the holder's lease.
//   - A caller that does not get the lock subscribes to the lock's channel. When the subscription is confirmed, it
//     tries again, because the lock may have been released in between. Then it sleeps until a message arrives or that
//     remaining time has passed, and tries again.
//   - A release deletes the hash and publishes one message. Every waiting process wakes one of its waiters, which tries
//     again. One of these waiters gets the lock, unless a new caller was faster, and the others sleep again.
//   - The lease is renewed after each third of its time, unless a LeaseTime is set.
//
// Differences from Redisson: re-entry is by context ([lock.Do]) and sends nothing, so the count in the hash is 1. The
// holder's lease reports a loss. A release without a reply is repeated in the background, while Redisson leaves a mark
// by which the server recognizes the repetition. A waiter that leaves passes on the message that woke it. The lock
// waits for no replica, while Redisson by default waits for the replicas of its master. The keys differ, too: an RLock
// does not exclude Redisson's own clients.
//
// Round trips: 2 uncontended (enter 1, leave 1). Contended: 1 more each time the waiter is woken (one release wakes a
// waiter in each process, and at most one gets the lock), and 1 for the first waiter of a process, which subscribes.
// One per renewal. A sleeping waiter sends nothing.
//
// Promises: exclusion while no lease is lost; a lease that reports its loss by the holder's own clock before the server
// frees the key; after a crash of the holder another caller can get the lock within Lease. It does not promise a fence:
// a holder that was frozen past its lease still writes. Nor an order: the first caller to try after the release wins.
// Nor an end of the renewal: a holder that hangs keeps the lock for ever. Nor a quick wake-up if a message is lost, or
// if the key expired or was deleted by hand: then the waiter sleeps until the end of the holder's lease. Nor does the
// lock survive a fail-over to a replica that did not have the key yet.
type RLock struct {
	server
	o       RLockOptions
	process string
	serial  atomic.Uint64
	wakers  *wakers

	enter, leave, renew *redisscript.Script
}

// Acquire tries, sleeps and tries again until ctx ends, or tries once with TryOnce.
func (r *RLock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := r.mayAcquire(ctx, key); err != nil {
		return nil, err
	}
	ctx, stop := r.cleanup.Wait(ctx)
	defer stop()
	var held *lock.HeldError // the last answer
	var waited *waker
	var all <-chan struct{}
	for {
		if waited != nil {
			all = r.wakers.all(waited) // before the request, so that no wake-up after the reply is missed
		}
		lease, err := r.try(ctx, key, o)
		switch {
		case err == nil:
			return lease, nil
		case !errors.As(err, &held):
			if waited != nil {
				waited.wakeOne() // a message may have woken us: pass it on to another waiter
			}
			return nil, joinHeld(held, err)
		case o.TryOnce:
			return nil, held
		}
		if waited == nil {
			if waited, all, err = r.wakers.join(ctx, channelOf(key)); err != nil {
				return nil, joinHeld(held, err)
			}
			defer r.wakers.leave(waited)
		}
		if err := waited.wait(ctx, o, all, held.Remaining); err != nil {
			return nil, joinHeld(held, err)
		}
	}
}

func joinHeld(held *lock.HeldError, err error) error {
	if held == nil {
		return err
	}
	return errors.Join(held, err)
}

func (r *RLock) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Every try has a new value, so that a late release of this one cannot delete the key of the next.
	a := r.attempt(key, o)
	sent := time.Now()
	_, err := a.request(ctx)
	switch {
	case err != nil:
		return nil, err
	case leaseOver(sent, r.lease):
		detached(ctx, a.free)
		return nil, &lock.HeldError{Key: key, Remaining: time.Millisecond}
	}
	return r.hold(a, sent), nil
}

func (r *RLock) attempt(key string, o lock.Options) *attempt {
	names := r.names(key)
	value := r.process + ":" + strconv.FormatUint(r.serial.Add(1), 10) + " " + o.Owner
	return &attempt{
		server: &r.server, options: o, key: key, value: value,
		acquire: call{r.enter, names, []any{value, r.lease.Milliseconds(), channelOf(key)}},
		release: call{r.leave, names, []any{value, channelOf(key)}},
	}
}

// channelOf returns the channel on which the releases of a key are published.
func channelOf(key string) string { return "rlock:" + tag(key) + ":free" }

// hold returns the lease of a granted lock. The lease is renewed, unless a LeaseTime is set.
func (r *RLock) hold(a *attempt, sent time.Time) *lock.Lease {
	l, _ := lock.NewLease(a.key, lock.NoFence, a.free)
	k := lock.Renewal{TTL: r.lease}
	if r.o.LeaseTime == 0 {
		renew := call{r.renew, a.acquire.keys, a.acquire.args}
		k.Every = r.lease / 3
		k.Renew = func(ctx context.Context) error { return ownership(renew.run(ctx, r.client).Int()) }
	}
	l.KeepAlive(sent, k)
	return l
}
