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
	// LeaseTime, if not 0, takes the place of Lease and is not renewed: the server frees the key so long after it was
	// granted, whether the holder is done or not. It is the leaseTime of Redisson's tryLock(waitTime, leaseTime), which
	// turns the watchdog off. A contended acquisition then costs one round trip more, because a waiter that was
	// granted the lock asks for that lease. Default 0: the lease is renewed.
	LeaseTime time.Duration
	// MaxHold: renewal ends after this and the lease is lost, because a hung holder must not hold for ever; default
	// 5 min.
	MaxHold time.Duration
	Logger  *slog.Logger // told when the subscription breaks; default: nobody

	// Replicas must have acknowledged the lock (WAIT) before it counts, and every renewal. If too few do in time, an
	// acquisition gives the lock back and says ErrDown, and a renewal does not count and is tried again until the
	// lease runs out. Default nil: none is asked, and a fail-over to a replica that has not heard of the lock yet lets
	// another in beside the holder.
	//
	// It is not consensus: a replica that has not acknowledged may be promoted, and one that has may have lost the
	// key since. The more replicas are asked for, the likelier a lock survives, and the more of them stop everybody
	// by being away. Only the fence keeps a second holder from writing.
	Replicas Acknowledgement
}

const (
	// recheck is how often a waiter asks although it has heard nothing.
	recheck = time.Second
	// grantLease is the lease of a grant. The waiter counts it from before the request that the grant answers: it
	// cannot know when the grant was made, only that it was after that. A waiter that hears of a grant in the second
	// half of that time does not take it, but asks.
	//
	// It counts by the monotonic clock, which goes on while a process is stopped (SIGSTOP, a debugger, a long
	// garbage collection, a virtual machine that is not scheduled). On Linux that clock stands still while the
	// whole computer is suspended or a snapshot of it is kept (Go reads CLOCK_MONOTONIC, not CLOCK_BOOTTIME): a
	// waiter or a holder that wakes from that believes that no time has passed, until its next renewal. Only the
	// fence keeps it from writing.
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

	enter, leave, renew *script
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
		enter: newScript(queueSource + enterSource),
		leave: newScript(queueSource + leaveSource),
		renew: newScript(renewSource),
	}
}

// Close ends the subscription, and gives up the releases that have not reached the server yet; their keys run out with
// the lease. Leases are not touched.
func (w *Watchdog) Close() error {
	w.cleanup.close()
	return w.notifier.close()
}

// takes reports whether a waiter that hears of a grant so long after it asked takes it. A grant was made by another
// process, which did not wait for our replicas, and has a lease that is to be renewed: with Replicas or a LeaseTime the
// lock is asked for once more.
func (o WatchdogOptions) takes(waited time.Duration) bool {
	return o.Replicas == nil && o.LeaseTime == 0 && waited < lock.Valid(min(grantLease, o.Lease))/2
}

// keep says how a lease stays alive. The first one may be shorter than the others; 0 is the same.
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

// request takes the lock if it is free, or else queues up unless number is 0. After any error but ErrHeld nothing is
// left behind.
func (w *Watchdog) request(ctx context.Context, a *attempt, number uint64) (lock.Fence, error) {
	a.queued = a.queued || number != 0
	a.acquire.args = []any{a.value, w.o.Lease.Milliseconds(), grantLease.Milliseconds(), number}
	return a.request(ctx)
}
