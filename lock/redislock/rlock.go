package redislock

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

var (
	//go:embed rlock_enter.lua
	rlockEnterSource string
	//go:embed rlock_leave.lua
	rlockLeaveSource string
	//go:embed rlock_renew.lua
	rlockRenewSource string
)

// RLockOptions are the choices of an RLock; a zero field means its default.
type RLockOptions struct {
	// Lease is how long after the last renewal the server frees the key; default 30 s, renewed every third. Redisson
	// calls it lockWatchdogTimeout.
	Lease time.Duration
	// LeaseTime, if not 0, takes the place of Lease and is not renewed: the server frees the key so long after the
	// acquisition, whether the holder is done or not. It is the leaseTime of Redisson's tryLock(waitTime, leaseTime),
	// which turns the watchdog off. Default 0: the lease is renewed.
	LeaseTime time.Duration
	Logger    *slog.Logger // told when the subscription breaks; default: nobody
}

// RLock is the lock that Redisson's RLock is, in its default form: it waits, is woken by a message, is renewed for as
// long as its holder works, and is neither fair nor fenced. It stands beside [Watchdog], so that the difference can
// be seen. The algorithm is that of RedissonLock and RedissonBaseLock in https://github.com/redisson/redisson, read at
// version 4.7.0, and told here in our words:
//
//   - The lock is a hash with one field: who holds it, and how often it has entered. A script enters if there is no
//     hash, or one with our field, and gives it a time limit; otherwise it answers how long the holder's lease runs.
//   - Who is refused subscribes to the lock's channel, and asks once more when the subscription stands, because the
//     release may have come in between. Then it sleeps until a message comes, or until the lease that it was told of
//     has run out, and asks again.
//   - A release deletes the hash and publishes one message. Every process that waits wakes one of its waiters for
//     it. They ask, one of them has the lock, unless a newcomer was quicker, and the others sleep on.
//   - The lease is renewed every third of it. With a LeaseTime it is not.
//
// What is not as in Redisson: re-entry goes by context ([lock.Do]) and asks nothing, so the count in the hash is 1; a
// holder is told of a loss, where Redisson's is told nothing; a release that got no answer is looked after in the
// background, where Redisson's leaves a mark by which its repetition is known; a waiter that leaves passes on the
// message which woke it; no replica is waited for, where Redisson asks those of its master by default. The keys differ,
// too: it does not exclude Redisson's own clients.
//
// Round trips: 2 uncontended (enter 1, leave 1). Contended 1 more for each time that the waiter is woken, which is in
// vain for all processes but one at most, and 1 for the first waiter of a process, which subscribes. One
// per renewal. A sleeping waiter asks nothing.
//
// Promises: exclusion while no lease is lost; the holder is told of a loss by its own clock before the server frees
// the key; a crashed holder is followed within Lease.
// Does not promise: a fence, so a holder that was frozen past its lease, or works longer than LeaseTime and heeds no
// loss, still writes; an order: who asks at the right moment wins, also before those that have waited for long; an end
// of the renewal, so that a holder that hangs holds for ever; a quick wake-up after a message that got lost, which
// costs the waiter the rest of the holder's lease, or where nobody publishes, because the key was deleted by hand or
// ran out; survival of a fail-over to a replica that had not heard of the key.
type RLock struct {
	server
	o       RLockOptions
	process string
	serial  atomic.Uint64
	bells   *bells

	enter, leave, renew *script
}

// NewRLock returns an RLock on c. Close it when no lease is held any more.
func NewRLock(c redis.UniversalClient, o RLockOptions) *RLock {
	def(&o.Lease, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	lease := cmp.Or(o.LeaseTime, o.Lease)
	return &RLock{
		server: server{c, lease, nil, newCleanup()},
		o:      o, process: uuid.NewString(), bells: newBells(c, o.Logger),
		enter: newScript(rlockEnterSource),
		leave: newScript(rlockLeaveSource),
		renew: newScript(rlockRenewSource),
	}
}

// Close ends the subscription, and gives up the releases that have not reached the server yet; their keys run out with
// the lease. Leases are not touched.
func (r *RLock) Close() error {
	r.cleanup.close()
	return r.bells.close()
}

// Acquire asks, and unless o says TryOnce sleeps and asks again until ctx ends.
func (r *RLock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	var held *lock.HeldError // the last answer
	var waited *bell
	var all <-chan struct{}
	for {
		if waited != nil {
			all = r.bells.all(waited) // before we ask: what comes after the answer must be heard
		}
		lease, err := r.try(ctx, key, o)
		switch {
		case err == nil:
			return lease, nil
		case !errors.As(err, &held):
			if waited != nil {
				waited.ring() // it may have been a message that made us ask, and others wait for it
			}
			return nil, joinHeld(held, err)
		case o.TryOnce:
			return nil, held
		}
		if waited == nil {
			if waited, all, err = r.bells.join(ctx, channelOf(key)); err != nil {
				return nil, joinHeld(held, err)
			}
			defer r.bells.leave(waited)
		}
		if err := waited.wait(ctx, o, all, held.Remaining); err != nil {
			return nil, joinHeld(held, err)
		}
	}
}

// joinHeld returns err with what the server said last of the holder, if it said something.
func joinHeld(held *lock.HeldError, err error) error {
	if held == nil {
		return err
	}
	return errors.Join(held, err)
}

func (r *RLock) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Every try has a value of its own: a late release of this one must not hit the next.
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
	names := []string{"rlock:" + tag(key)}
	value := r.process + ":" + strconv.FormatUint(r.serial.Add(1), 10) + " " + o.Owner
	return &attempt{
		server: &r.server, options: o, key: key, value: value,
		acquire: call{r.enter, names, []any{value, r.lease.Milliseconds()}},
		release: call{r.leave, names, []any{value, channelOf(key)}},
	}
}

// channelOf returns the channel on which the releases of a key are published.
func channelOf(key string) string { return "rlock:" + tag(key) + ":free" }

// hold makes the lease of a lock that was granted, and renews it unless there is a LeaseTime.
func (r *RLock) hold(a *attempt, sent time.Time) *lock.Lease {
	l, _ := lock.NewLease(a.key, lock.NoFence, a.free)
	k := lock.Keep{TTL: r.lease}
	if r.o.LeaseTime == 0 {
		renew := call{r.renew, a.acquire.keys, a.acquire.args}
		k.Every = r.lease / 3
		k.Renew = func(ctx context.Context) error { return ownership(renew.run(ctx, r.client).Int()) }
	}
	l.Keep(sent, k)
	return l
}
