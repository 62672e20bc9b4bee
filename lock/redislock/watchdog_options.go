package redislock

import (
	"context"
	_ "embed" // the scripts
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

var (
	//go:embed queue.lua
	queueSource string
	//go:embed enter.lua
	enterSource string
	//go:embed leave.lua
	leaveSource string
	//go:embed renew.lua
	renewSource string
)

// WatchdogOptions are the choices of a Watchdog; a zero field means its default.
type WatchdogOptions struct {
	// Lease is how long after the last renewal the server frees the key; default 30 s, renewed every third.
	Lease time.Duration
	// LeaseTime, if not 0, replaces Lease and turns the renewal off: the server frees the key after this time, even if
	// the holder is not done. It is the leaseTime of Redisson's tryLock(waitTime, leaseTime). A contended acquisition
	// then costs one round trip more, because a waiter that was granted the lock asks for that lease. Default 0: the
	// lease is renewed.
	LeaseTime time.Duration
	// MaxHold is the longest hold. After it renewal ends and the lease is lost, so that a hung holder does not hold for
	// ever. Default 5 min.
	MaxHold time.Duration
	Logger  *slog.Logger // logs that the subscription broke; default: none

	// Replicas must acknowledge every grant and every renewal (WAIT) before it counts. If too few do so in time, an
	// acquisition gives the lock back and returns ErrDown, and a renewal is tried again until the lease runs out.
	// Default nil: no replica is asked, and after a fail-over to a replica that did not have the lock yet there may be
	// a second holder.
	//
	// This is not consensus: a replica that has not acknowledged may be promoted, and one that has may have lost the
	// key since. With more replicas a lock is likelier to survive, and the failure of one is likelier to stop all
	// callers. Only the fence stops the writes of the older holder.
	Replicas Acknowledgement
}

const (
	// recheck is the longest time between two requests of a waiter.
	recheck = time.Second
	// grantLease is the lease of a grant. The waiter counts it from before the request that the grant answers, because
	// it does not know when the grant was made, only that it was after that. If the message comes in the second half of
	// that time, the waiter does not take the grant but asks again.
	//
	// The waiter uses the monotonic clock, which runs while a process is stopped. On Linux it stands still while the
	// whole computer is suspended (Go reads CLOCK_MONOTONIC, not CLOCK_BOOTTIME). A waiter or holder that wakes from
	// that relies on its lease until its next renewal, and only the fence stops its writes.
	grantLease = 4 * time.Second
)

// Watchdog is a lock with a queue of waiters in Redis, which is renewed for as long as its holder works: by default a
// lease of 30 s, renewed every 10 s. [RLock] is a lock as Redisson's is; ADR 0006 says why this one differs.
// The algorithm is in watchdog.go.
//
// Round trips: 2 uncontended (enter 1, leave 1); contended 2 as well, and one message, for which nobody waits; one per
// renewal, and one a second for each waiter. Replicas make each as slow as the replicas, and cost 1 more contended,
// because a grant must be acknowledged to its new holder. With [lock.HandOver] up to 16 holders share these.
//
// Promises: exclusion while no lease is lost; first come, first served; a loss that the holder's lease reports before
// the server frees the key; a fence; a next holder within Lease of a crash, or within grantLease if the waiter of a
// grant crashed. Does not promise: that renewal helps a frozen process (the fence refuses its write); survival of a
// fail-over to a replica that did not have the lock yet; the order of the queue over a restart without persistence.
type Watchdog struct {
	server
	o        WatchdogOptions
	process  string
	serial   atomic.Uint64
	notifier *notifier

	enter, leave, renew *redisscript.Script
}

// NewWatchdog returns a Watchdog on c. Close it when no lease is held any more.
func NewWatchdog(c redis.UniversalClient, o WatchdogOptions) *Watchdog {
	def(&o.Lease, 30*time.Second)
	def(&o.MaxHold, 5*time.Minute)
	if o.LeaseTime > 0 {
		o.Lease = o.LeaseTime
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	process := uuid.NewString()
	return &Watchdog{
		server: server{c, o.Lease, o.Replicas, newCleanup()},
		o:      o, process: process, notifier: newNotifier(c, process, o.Logger),
		enter: redisscript.New(queueSource + enterSource),
		leave: redisscript.New(queueSource + leaveSource),
		renew: redisscript.New(renewSource),
	}
}

// Close ends the subscription, and drops the releases that have not reached the server yet; their keys run out with the
// lease. Leases stay as they are.
func (w *Watchdog) Close() error {
	w.cleanup.close()
	return w.notifier.close()
}

// takes reports whether a waiter takes a grant whose message came this long after its request. With Replicas or a
// LeaseTime it does not, and asks again: the process that granted the lock did not wait for replicas, and granted a
// lease that must be renewed.
func (o WatchdogOptions) takes(waited time.Duration) bool {
	return o.Replicas == nil && o.LeaseTime == 0 && waited < lock.Valid(min(grantLease, o.Lease))/2
}

// keep returns how a lease is kept alive. first is the TTL up to the first renewal; 0 means that it is Lease.
func (o WatchdogOptions) keep(first time.Duration) lock.Keep {
	if o.LeaseTime > 0 {
		return lock.Keep{TTL: o.LeaseTime}
	}
	return lock.Keep{TTL: o.Lease, Every: o.Lease / 3, First: min(first, o.Lease), Max: o.MaxHold}
}

// attempt begins an acquisition. Its value also stands for the caller in the queue.
func (w *Watchdog) attempt(key string, o lock.Options) *attempt {
	names := w.names(key)
	value := w.process + ":" + strconv.FormatUint(w.serial.Add(1), 10) + " " + o.Owner
	return &attempt{
		server: &w.server, options: o, key: key, value: value,
		acquire: call{script: w.enter, keys: names},
		release: call{w.leave, names, []any{value, grantLease.Milliseconds()}},
	}
}

// names returns the keys in Redis of a lock: the lock, its last fence, the queue, and when each waiter last asked.
func (w *Watchdog) names(key string) []string {
	name := "watchdog:" + tag(key)
	return []string{name, name + ":fence", name + ":queue", name + ":seen"}
}

// request takes the lock if it is free. Otherwise it queues up, unless number is 0. After any error but ErrHeld nothing
// is left behind.
func (w *Watchdog) request(ctx context.Context, a *attempt, number uint64) (lock.Fence, error) {
	a.queued = a.queued || number != 0
	a.acquire.args = []any{a.value, w.o.Lease.Milliseconds(), grantLease.Milliseconds(), number}
	return a.request(ctx)
}
