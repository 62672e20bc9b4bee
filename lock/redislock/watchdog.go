package redislock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"log/slog"
	"math/rand/v2"
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

// Watchdog is a lock that waits, and that is renewed for as long as its holder works: by default a lease of 30 s,
// renewed every 10 s.
//
// In that it is like Redisson's RLock (https://github.com/redisson/redisson, RedissonLock and RedissonBaseLock),
// and so it is in waking its waiters by a message. The rest differs. A Watchdog is first come, first served, and
// fenced: its waiters stand in a queue in Redis, and a release grants the lock to the oldest and tells only that
// one. An RLock wakes one thread in every process, of which all but one ask in vain, and has neither an order nor a
// fence: Redisson's FairLock and FencedLock are objects of their own. A Watchdog is renewed up to MaxHold, an RLock
// for ever; with a LeaseTime neither is renewed at all. An RLock asks the replicas of its master by default, and is
// content with one of them; a Watchdog asks as many as Replicas says, by default none. Their keys differ: they do
// not exclude each other. [RLock] is a lock as Redisson's is, to compare.
//
// A grant has a short lease until its waiter, which may have died, has renewed it. It names the request that it
// answers, and counts for that request alone: a waiter that was stopped for longer than a grant lives, and asks
// again, does not take the late message of before. A message that gets lost costs a waiter the time until it asks
// again, a second at most. A waiter that has not asked for five seconds is passed over.
//
// Round trips: 2 uncontended (enter 1, leave 1); contended 2 as well (enter and queue up, leave and grant) and one
// message, which nobody waits for; one per renewal, and one a second for each waiter. With Replicas as many
// uncontended, each as slow as the replicas that are waited for, and 1 more contended, because a grant must be
// acknowledged to its new holder. [lock.HandOver] makes that once for up to 16 holders.
//
// Promises: exclusion while no lease is lost; first come, first served; the holder is told of a loss by its own clock
// before the server frees the key; a fence; a crashed holder is followed within Lease, a waiter granted as it crashed
// within grantLease. Re-entry is by context (lock.Do), and needs no counter in Redis.
// Does not promise: that renewal helps a *frozen* process, which does not renew either (its write is refused by the
// fence); survival of a fail-over to a replica that had not heard of the key (Replicas makes that less likely); the
// order of the queue over a restart without persistence.
type Watchdog struct {
	server
	o        WatchdogOptions
	process  string
	serial   atomic.Uint64
	notifier *notifier

	enter, leave, renew *script
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

// Acquire waits in the queue until it is granted the lock or ctx ends. With TryOnce it does not queue up.
func (w *Watchdog) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	c, l, err := w.begin(ctx, key, o)
	if c == nil {
		return l, err
	}
	return c.wait(ctx)
}

// A candidate is an acquisition of a Watchdog.
type candidate struct {
	w *Watchdog
	*attempt
	me   *waiter
	sent time.Time // before the last request left
	// heard: the subscription stood before the last request. A grant would not be heard before: a first try does not
	// queue up yet.
	heard bool
	held  error // the last answer, if that was that another holds the lock
}

// begin makes the first request. If the acquisition is over then, there is no candidate.
func (w *Watchdog) begin(ctx context.Context, key string, o lock.Options) (*candidate, *lock.Lease, error) {
	a := w.attempt(key, o)
	c := &candidate{w: w, attempt: a, me: w.notifier.add(a.value)}
	l, over, err := c.ask(ctx)
	if !over {
		return c, nil, nil
	}
	w.notifier.remove(c.value)
	return nil, l, err
}

// ask makes a request. The acquisition is over with a lease or an error, unless another holds the lock and the caller
// is to wait.
func (c *candidate) ask(ctx context.Context) (l *lock.Lease, over bool, err error) {
	w, queue := c.w, !c.options.TryOnce
	for {
		c.heard = w.notifier.subscribed()
		number := w.notifier.next(c.me)
		if !queue || !c.heard {
			number = 0
		}
		c.sent = time.Now()
		fence, err := w.request(ctx, c.attempt, number)
		switch {
		case err == nil && leaseOver(c.sent, w.o.Lease) && queue:
			continue // we were stopped, or the answer was: only the server knows who has the key now
		case err == nil && leaseOver(c.sent, w.o.Lease):
			detached(ctx, c.free)
			return nil, true, &lock.HeldError{Key: c.key}
		case err == nil:
			return w.hold(c.attempt, c.sent, fence, 0), true, nil
		case !errors.Is(err, lock.ErrHeld):
			return nil, true, errors.Join(c.held, err)
		case !queue:
			return nil, true, err
		}
		c.held = err
		return nil, false, nil
	}
}

// wait goes on, after a request whose answer was that another holds the lock, until it is ours or ctx ends.
func (c *candidate) wait(ctx context.Context) (*lock.Lease, error) {
	w := c.w
	defer w.notifier.remove(c.value)
	for {
		if !c.heard {
			if err := w.notifier.subscribe(ctx); err != nil {
				return nil, errors.Join(c.held, err)
			}
		} else {
			fence, err := w.await(ctx, c.attempt, c.me.granted)
			if err != nil {
				return nil, errors.Join(c.held, err)
			}
			if fence != lock.NoFence && w.o.takes(time.Since(c.sent)) {
				return w.hold(c.attempt, c.sent, fence, grantLease), nil
			}
			// Nothing was heard, or so late that the grant may have run out. The next request finds a grant that
			// still runs.
		}
		if l, over, err := c.ask(ctx); over {
			return l, err
		}
	}
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

// await waits for a grant, or until it is time to ask again (NoFence). When ctx ends it gives up the place in the
// queue.
func (w *Watchdog) await(ctx context.Context, a *attempt, granted <-chan lock.Fence) (lock.Fence, error) {
	timer := time.NewTimer(recheck - rand.N(recheck/4))
	defer timer.Stop()
	select {
	case fence := <-granted:
		if fence != lock.NoFence {
			a.options.Woken()
		}
		return fence, nil
	case <-timer.C:
		return lock.NoFence, nil
	case <-ctx.Done():
		detached(ctx, a.free) // the place in the queue, and what may have been granted
		return lock.NoFence, context.Cause(ctx)
	}
}

// hold makes the lease of a lock that was granted, and renews it; see keep for first.
func (w *Watchdog) hold(a *attempt, sent time.Time, f lock.Fence, first time.Duration) *lock.Lease {
	l, _ := lock.NewLease(a.key, f, a.free)
	k := w.o.keep(first)
	k.Renew = func(ctx context.Context) error {
		renew := call{w.renew, a.acquire.keys[:1], []any{a.value, w.o.Lease.Milliseconds()}}
		reply, short := w.grant(ctx, a.options, renew)
		if err := ownership(reply.Int()); err != nil {
			return err
		}
		return short
	}
	l.Keep(sent, k)
	return l
}
