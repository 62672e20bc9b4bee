package teaching

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
)

var (
	//go:embed rlock_enter.lua
	rlockEnterSource string
	//go:embed rlock_leave.lua
	rlockLeaveSource string
	//go:embed rlock_renew.lua
	rlockRenewSource string
	//go:embed rlock_inspect.lua
	rlockInspectSource string

	enterScript, leaveScript = redisscript.New(rlockEnterSource), redisscript.New(rlockLeaveSource)
	renewScript              = redisscript.New(rlockRenewSource)
	inspectScript            = redisscript.New(rlockInspectSource)
)

// RLockOptions are the options of an RLock. A zero field means its default.
type RLockOptions struct {
	// Lease is the time from the last renewal until the server frees the key; default 30 s. It is renewed after each
	// third of this time. Redisson calls it lockWatchdogTimeout.
	Lease time.Duration
	// LeaseTime, if not 0, replaces Lease and turns the renewal off: the server frees the key after this time, even
	// if the holder still works. It is the leaseTime of Redisson's tryLock(waitTime, leaseTime). Default 0: the lease
	// is renewed.
	LeaseTime time.Duration
	Logger    *slog.Logger // logs that the subscription broke; default: none
}

// RLock works like Redisson's RLock in its default form: a caller waits, is woken by a message, and renews the lease
// while it works. The lock is neither fair nor fenced. It exists to be compared with redislock.Watchdog. The algorithm
// is that of RedissonLock and RedissonBaseLock in https://github.com/redisson/redisson, version 4.7.0:
//
//   - The lock is a hash with one field, the holder, whose value counts how often the holder has entered. A script
//     enters if there is no hash, or one with our field, and sets the time limit. Otherwise it returns the remaining
//     time of the holder's lease.
//   - A caller that does not get the lock subscribes to the releases. When the subscription is confirmed, it tries
//     again, because the lock may have been released in between. Then it sleeps until a message arrives or that
//     remaining time has passed, and tries again.
//   - A release deletes the hash and publishes one message. Every waiting process wakes one of its waiters, which tries
//     again. One of these waiters gets the lock, unless a new caller was faster, and the others sleep again.
//   - The lease is renewed after each third of its time, unless a LeaseTime is set.
//
// Differences from Redisson: re-entry is by context ([lock.Do]) and sends nothing, so the count in the hash is 1. The
// holder's lease reports a loss. A release without a reply is repeated in the background, while Redisson leaves a mark
// by which the server recognizes the repetition. A waiter that fails passes on the message that woke it. All keys share
// one channel, so that a process subscribes once, and receives the message of every release; Redisson has one for each
// key. The lock waits for no replica, while Redisson by default waits for the replicas of its master. The keys differ,
// too: an RLock does not exclude Redisson's own clients.
//
// Round trips: 2 uncontended (enter 1, leave 1). Contended: 1 more each time the waiter is woken (one release wakes a
// waiter in each process, and at most one gets the lock), and 1 for the first waiters of a process, which subscribe.
// One per renewal. A sleeping waiter sends nothing.
//
// Promises: exclusion while no lease is lost; a lease that reports its loss by the holder's own clock before the server
// frees the key; after a crash of the holder another caller can get the lock within Lease. It does not promise a fence:
// a holder that was frozen past its lease still writes. Nor an order: the first caller to try after the release wins.
// Nor an end of the renewal: a holder that hangs keeps the lock for ever. Nor a quick wake-up if a message is lost, or
// if the key expired or was deleted by hand: then the waiter sleeps until the end of the holder's lease. Nor does the
// lock survive a fail-over to a replica that did not have the key yet.
type RLock struct {
	handle
	server   *request.Server
	o        RLockOptions
	process  string
	serial   atomic.Uint64
	releases *request.Subscription

	mu    sync.Mutex
	bells map[string]*bell // by the name of the lock
}

// NewRLock returns an RLock on c. Close it when all leases have ended. If an option is invalid, Acquire returns an
// error that names it.
func NewRLock(c redis.UniversalClient, o RLockOptions) *RLock {
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	s := &request.Server{
		Client: c, Prefix: "rlock", Parts: []string{""}, Reader: inspectScript,
		Lease: cmp.Or(o.LeaseTime, o.Lease), Cleanup: request.NewCleanup(cmp.Or(
			driver.AtLeast("Lease", o.Lease, driver.MinLease),
			driver.AtLeast("LeaseTime", cmp.Or(o.LeaseTime, driver.MinLease), driver.MinLease),
		)),
	}
	r := &RLock{
		handle: s.Handle(), server: s, o: o, process: uuid.NewString(), bells: make(map[string]*bell),
	}
	r.releases = request.NewSubscription(c, "rlock:free", o.Logger, r.freed)
	return r
}

// Promise is what it promises with the defaults of its options.
func (*RLock) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Blocking: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 30 * time.Second,
	}
}

// Close ends the waits, with lock.ErrClosed, and the subscription. It drops the releases that have not reached the
// server yet; their keys expire with the lease. Leases are not affected.
func (r *RLock) Close() error { return errors.Join(r.handle.Close(), r.releases.Close()) }

// A bell wakes one of the callers that acquire a key in this process.
type bell struct {
	callers int           // the mutex of the RLock guards it
	rung    chan struct{} // has a value if a waiter must try again; the waiter that receives it does so
}

// ring wakes one waiter, or the next one to arrive. It does nothing if an earlier ring has not been received yet.
func (b *bell) ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

func (r *RLock) listen(key string) *bell {
	name := r.server.Names(key)[0]
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.bells[name]
	if b == nil {
		b = &bell{rung: make(chan struct{}, 1)}
		r.bells[name] = b
	}
	b.callers++
	return b
}

func (r *RLock) unlisten(key string, b *bell) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.callers--; b.callers == 0 {
		delete(r.bells, r.server.Names(key)[0])
	}
}

// freed is called for the message of a release.
func (r *RLock) freed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b := r.bells[name]; b != nil {
		b.ring()
	}
}

// Check takes the key, finds it held as a waiter would, subscribes, and gives it back.
func (r *RLock) Check(ctx context.Context, key string) error {
	a := r.attempt(key, lock.Options{Owner: "check"})
	if _, _, err := a.Request(ctx); err != nil {
		return err
	}
	err := request.Ownership(r.renewal(a).Run(ctx, a.Client).Int())
	if err == nil {
		if _, err = r.try(ctx, key, lock.Options{Owner: "check"}); errors.Is(err, lock.ErrHeld) {
			err = nil
		}
	}
	if err == nil {
		err = r.releases.Await(ctx, r.releases.Current())
	}
	return errors.Join(err, a.Free(ctx))
}
