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
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
)

var (
	//go:embed enter.lua
	enterSource string
	//go:embed leave.lua
	leaveSource string
	//go:embed renew.lua
	renewSource string

	enterScript, leaveScript = queued(enterSource), queued(leaveSource)
	renewScript              = redisscript.New(renewSource)
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

// grantLease is the lease of a grant. The waiter counts it from the time of the request that the grant answers, because
// it only knows that the grant was made after the request. If the message arrives in the second half of that time, the
// waiter does not take the grant but repeats its request.
//
// The waiter uses the monotonic clock, which runs while a process is stopped. On Linux it stands still while the whole
// computer is suspended (Go reads CLOCK_MONOTONIC, not CLOCK_BOOTTIME). A waiter or holder on such a computer relies on
// its lease until the next renewal after the suspension, and until then only the fence stops its writes.
const grantLease = 4 * time.Second

// Watchdog is a lock with a queue of waiters in Redis. Its lease is renewed while the holder works: by default a
// lease of 30 s, renewed every 10 s. It is compared with Redisson's lock in package teaching; ADR 0003 explains the
// differences. The algorithm is in watchdog.go.
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
	handle
	server   *request.Server
	o        WatchdogOptions
	process  string
	serial   atomic.Uint64
	notifier *notifier
}

// NewWatchdog returns a Watchdog on c. Close it when all leases have ended. If an option is invalid, Acquire returns an
// error that names it.
func NewWatchdog(c redis.UniversalClient, o WatchdogOptions) *Watchdog {
	o.Lease, o.MaxHold = cmp.Or(o.Lease, 30*time.Second), cmp.Or(o.MaxHold, 5*time.Minute)
	invalid := cmp.Or(
		driver.AtLeast("Lease", o.Lease, driver.MinLease),
		driver.AtLeast("LeaseTime", cmp.Or(o.LeaseTime, driver.MinLease), driver.MinLease),
		driver.AtLeast("MaxHold", o.MaxHold, 0),
	)
	o.Lease = cmp.Or(o.LeaseTime, o.Lease)
	s := &request.Server{
		Client: c, Prefix: "watchdog", Parts: []string{"", ":fence", ":queue", ":seen"}, Reader: inspectScript,
		Lease: o.Lease, Cleanup: request.NewCleanup(invalid),
		Replicas: o.Replicas.Number, ReplicaTimeout: o.Replicas.Timeout,
	}
	process := uuid.NewString()
	return &Watchdog{
		handle: s.Handle(), server: s, o: o, process: process, notifier: newNotifier(c, process, o.Logger),
	}
}

// Promise is what it promises with the defaults of its options.
func (*Watchdog) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Fair: true, Blocking: true, Reentrant: true,
		SignalsLoss: true, FreedAfterCrash: 30 * time.Second,
	}
}

// Close ends the waits, with lock.ErrClosed, and the subscription. It drops the releases that have not reached the
// server yet; their keys expire with the lease. Leases are not affected.
func (w *Watchdog) Close() error {
	return errors.Join(w.handle.Close(), w.notifier.Close())
}

// takes reports whether a waiter takes a grant whose message arrived this long after its request. With Replicas or a
// LeaseTime, a waiter never takes the grant but repeats its request, because the process that granted the lock did not
// wait for replicas, and granted a lease that must be renewed.
func (o WatchdogOptions) takes(waited time.Duration) bool {
	return o.Replicas.Number == 0 && o.LeaseTime == 0 && waited < lock.Valid(min(grantLease, o.Lease))/2
}

// keep returns the Renewal of a lease. first is the TTL up to the first renewal; 0 means Lease.
func (o WatchdogOptions) keep(first time.Duration) lock.Renewal {
	if o.LeaseTime > 0 {
		return lock.Renewal{TTL: o.LeaseTime}
	}
	return lock.Renewal{TTL: o.Lease, Every: o.Lease / 3, First: min(first, o.Lease), Max: o.MaxHold}
}

// FenceRange returns the distance between fences; see [driver.FenceRanger].
func (w *Watchdog) FenceRange() uint64 { return driver.FenceRange }

// attempt begins an acquisition. Its value also stands for the caller in the queue.
func (w *Watchdog) attempt(key string, o lock.Options) *request.Attempt {
	names := w.server.Names(key)
	value := w.process + ":" + strconv.FormatUint(w.serial.Add(1), 10) + " " + o.Owner
	return &request.Attempt{
		Server: w.server, Options: o, Key: key, Value: value,
		Acquire: request.Call{Script: enterScript, Keys: names},
		Release: request.Call{Script: leaveScript, Keys: names, Args: []any{value, grantLease.Milliseconds()}},
	}
}

// request takes the lock if it is free. Otherwise it queues up, unless number is 0. After any error but ErrHeld
// nothing is left behind.
func (w *Watchdog) request(ctx context.Context, a *request.Attempt, number uint64) (lock.Fence, time.Time, error) {
	a.Acquire.Args = []any{a.Value, w.o.Lease.Milliseconds(), grantLease.Milliseconds(), number}
	fence, sent, err := a.Request(ctx)
	a.Queued = a.Queued || number != 0
	return fence, sent, err
}

func (w *Watchdog) renewal(a *request.Attempt) request.Call {
	return request.Call{Script: renewScript, Keys: a.Acquire.Keys[:1], Args: []any{a.Value, w.o.Lease.Milliseconds()}}
}

// Check takes the key, queues up behind it, and passes the lock on.
func (w *Watchdog) Check(ctx context.Context, key string) error {
	one, two := w.attempt(key, lock.Options{Owner: "check"}), w.attempt(key, lock.Options{Owner: "check"})
	if _, _, err := w.request(ctx, one, 0); err != nil {
		return err
	}
	err := w.notifier.Await(ctx, w.notifier.Current())
	if err == nil {
		err = request.Ownership(w.renewal(one).Run(ctx, w.server.Client).Int())
	}
	if err == nil {
		_, _, err = w.request(ctx, two, 1)
	}
	if errors.Is(err, lock.ErrHeld) {
		err = nil // it is in the queue
	}
	err = errors.Join(err, one.Free(ctx))
	request.Detached(ctx, two.Free)
	return err
}
