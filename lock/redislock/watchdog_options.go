package redislock

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
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

// WatchdogOptions are the options of a Watchdog. A zero field means its default.
type WatchdogOptions struct {
	// Lease is the time from the last renewal until the server frees the key; default 30 s. It is renewed after each
	// third of this time.
	Lease time.Duration
	// LeaseTime, if not 0, replaces Lease and turns the renewal off: the server frees the key after this time, even if
	// the holder still works. It is the leaseTime of Redisson's tryLock(waitTime, leaseTime). A contended acquisition
	// then costs one round trip more, because a waiter that was granted the lock must request a lease of this length.
	// Default 0: the lease is renewed.
	LeaseTime time.Duration
	// MaxHold is the longest hold. After it the lease is lost, so that a hung holder does not hold for ever. Default
	// 5 min.
	MaxHold time.Duration
	Logger  *slog.Logger // logs that the subscription broke; default: none

	Replicas Replicas // must acknowledge; default none
}

const (
	// recheck is the longest time between two requests of a waiter.
	recheck = time.Second
	// grantLease is the lease of a grant. The waiter counts it from the time of the request that the grant answers,
	// because it only knows that the grant was made after the request. If the message arrives in the second half of
	// that time, the waiter does not take the grant but repeats its request.
	//
	// The waiter uses the monotonic clock, which runs while a process is stopped. On Linux it stands still while the
	// whole computer is suspended (Go reads CLOCK_MONOTONIC, not CLOCK_BOOTTIME). A waiter or holder on such a computer
	// relies on its lease until the next renewal after the suspension, and until then only the fence stops its writes.
	grantLease = 4 * time.Second
)

// Watchdog is a lock with a queue of waiters in Redis. Its lease is renewed while the holder works: by default a
// lease of 30 s, renewed every 10 s. [RLock] works as Redisson's lock does; ADR 0003 explains why this one differs.
// The algorithm is in watchdog.go.
//
// Round trips: 2 uncontended (enter 1, leave 1); contended also 2, and one message, whose delivery delays no caller;
// one per renewal, and one a second for each waiter. With Replicas each round trip takes as long as the replicas need,
// and a contended acquisition costs 1 more, because the new holder's grant must be acknowledged. With [lock.HandOver]
// up to 16 holders share these round trips.
//
// Promises: exclusion while no lease is lost; first come, first served; the holder's lease reports a loss before the
// server frees the key; a fence; another caller can get the lock within Lease after a crash of the holder, or within
// grantLease if a waiter crashed that was just granted the lock. It does not promise that a frozen process keeps the
// lock (because of the fence, the store refuses its write); nor survival of a fail-over to a replica that did not have
// the lock yet; nor the order of the queue after a restart without persistence.
type Watchdog struct {
	server
	o        WatchdogOptions
	process  string
	serial   atomic.Uint64
	notifier *notifier

	enter, leave, renew *redisscript.Script
}

// NewWatchdog returns a Watchdog on c. Close it when all leases have ended. If an option is invalid, Acquire returns an
// error that names it.
func NewWatchdog(c redis.UniversalClient, o WatchdogOptions) *Watchdog {
	def(&o.Lease, 30*time.Second)
	def(&o.MaxHold, 5*time.Minute)
	invalid := cmp.Or(
		driver.AtLeast("Lease", o.Lease, driver.MinLease), leaseTime(o.LeaseTime),
		driver.AtLeast("MaxHold", o.MaxHold, 0),
	)
	if o.LeaseTime > 0 {
		o.Lease = o.LeaseTime
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	process := uuid.NewString()
	return &Watchdog{
		server: server{
			c, "watchdog",
			[]string{"", ":fence", ":queue", ":seen"},
			readByScript, o.Lease, o.Replicas, newCleanup(),
			invalid,
		},
		o: o, process: process, notifier: newNotifier(c, process, o.Logger),
		enter: redisscript.New(queueSource + enterSource),
		leave: redisscript.New(queueSource + leaveSource),
		renew: redisscript.New(renewSource),
	}
}

// Promise is what it promises with the defaults of its options.
func (*Watchdog) Promise() driver.Promise {
	return driver.Promise{
		Exclusive:       true,
		Scope:           driver.Cluster,
		Fenced:          true,
		Fair:            true,
		Blocking:        true,
		Reentrant:       true,
		SignalsLoss:     true,
		FreedAfterCrash: 30 * time.Second,
	}
}

// leaseTime returns an error if a LeaseTime is invalid.
func leaseTime(d time.Duration) error {
	if d == 0 {
		return nil // the lease is renewed
	}
	return driver.AtLeast("LeaseTime", d, driver.MinLease)
}

// Close ends the subscription, and drops the releases that have not reached the server yet; their keys expire with
// the lease. Leases are not affected.
func (w *Watchdog) Close() error {
	w.cleanup.Close()
	return w.notifier.close()
}

// takes reports whether a waiter takes a grant whose message arrived this long after its request. With Replicas or a
// LeaseTime, a waiter never takes the grant but repeats its request, because the process that granted the lock did not
// wait for replicas, and granted a lease that must be renewed.
func (o WatchdogOptions) takes(waited time.Duration) bool {
	return o.Replicas.Number == 0 && o.LeaseTime == 0 && waited < lock.Valid(min(grantLease, o.Lease))/2
}

// keep returns the Keep of a lease. first is the TTL up to the first renewal; 0 means Lease.
func (o WatchdogOptions) keep(first time.Duration) lock.Renewal {
	if o.LeaseTime > 0 {
		return lock.Renewal{TTL: o.LeaseTime}
	}
	return lock.Renewal{TTL: o.Lease, Every: o.Lease / 3, First: min(first, o.Lease), Max: o.MaxHold}
}

const span = 64 // as SPAN in queue.lua

// FenceRange returns the distance between fences; see [driver.FenceRanger].
func (w *Watchdog) FenceRange() uint64 { return span }

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

// request takes the lock if it is free. Otherwise it queues up, unless number is 0. After any error but ErrHeld
// nothing is left behind.
func (w *Watchdog) request(ctx context.Context, a *attempt, number uint64) (lock.Fence, error) {
	a.queued = a.queued || number != 0
	a.acquire.args = []any{a.value, w.o.Lease.Milliseconds(), grantLease.Milliseconds(), number}
	return a.request(ctx)
}
