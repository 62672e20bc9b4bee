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
	Lease   time.Duration // the server frees the key this long after the last renewal; default 30 s, renewed every third
	MaxHold time.Duration // renewal ends after this and the lease is lost: a hung holder must not hold for ever; default 5 min
	Logger  *slog.Logger  // told when the subscription breaks; default: nobody

	// Replicas: so many must have acknowledged the lock (WAIT) before it counts, and every renewal. If fewer do within ReplicaTimeout, an
	// acquisition gives the lock back and says ErrDown, and a renewal does not count and is tried again until the lease runs out.
	// Default 0: none is asked, and a fail-over to a replica that has not heard of the lock yet lets another in beside the holder.
	//
	// It is not consensus: a replica that has not acknowledged may be promoted, and one that has may have lost the key since. The more replicas
	// are asked for, the likelier a lock survives, and the more of them stop everybody by being away. Only the fence keeps
	// a second holder from writing.
	Replicas       int
	ReplicaTimeout time.Duration // must be shorter than the client's ReadTimeout; default 500 ms, at most a sixth of Lease
}

// Watchdog is a lock that waits, and that is renewed for as long as its holder works: by default a lease of 30 s, every
// 10 s.
//
// That is like Redisson's RLock (https://github.com/redisson/redisson, RedissonLock and RedissonBaseLock), and so is
// that who waits is woken by a message. The rest is not. A Watchdog is first come, first served, and fenced: who waits
// stands in a queue in Redis, and a release grants the lock to the oldest and tells only that one. An RLock wakes one
// thread in every process, of which all but one ask in vain, and has neither an order nor a fence: Redisson's FairLock
// and FencedLock are objects of their own. A Watchdog is renewed up to MaxHold, an RLock for ever, or with a leaseTime
// of its own not at all. An RLock asks the replicas of its master by default, and is content with one of them; a
// Watchdog asks as many as Replicas says, by default none. Their keys differ: they do not exclude each other.
//
// A grant has a short lease until its waiter, which may have died, has renewed it. It names the ask that it answers,
// and counts for that one alone: who was stopped for longer than a grant, and asks again, does not take the late
// message of before. A message that gets lost costs a waiter the time until it asks again, a second at most. A waiter
// that has not asked for five seconds is passed over.
//
// Round trips: 2 uncontended (enter 1, leave 1); contended 2 as well (enter and queue up, leave and grant) and one message, which
// nobody waits for; one per renewal, and one a second for each waiter. With Replicas as many uncontended, each as slow as the replicas
// that are waited for, and 1 more contended, because a grant must be acknowledged to its new holder. [lock.HandOver] makes that once for up to 16 holders.
//
// Promises: exclusion while no lease is lost; first come, first served; the holder is told of a loss by its own clock before the
// server frees the key; a fence; a crashed holder is followed within Lease, a waiter granted as it crashed within grantLease.
// Re-entry is by context (lock.Do), and needs no counter in Redis.
// Does not promise: that renewal helps a *frozen* process, which does not renew either (its write is refused by the fence);
// survival of a fail-over to a replica that had not heard of the key (Replicas makes that less likely); the order of the queue over a restart without persistence.
type Watchdog struct {
	client  redis.UniversalClient
	o       WatchdogOptions
	process string
	serial  atomic.Uint64
	grants  *grants
	sweeper *sweeper
	acks    acks

	enter, leave, renew *script
}

const (
	// recheck is how often a waiter asks although nothing was heard.
	recheck = time.Second
	// grantLease is the lease of a grant. The waiter counts it from before the ask that the grant answers, because it
	// cannot know when the grant was made, only that it was after that. A grant that it hears of in the second half of
	// that time it does not take: it asks.
	//
	// It counts by the monotonic clock, which goes on while a process is stopped (SIGSTOP, a debugger, a long garbage
	// collection, a virtual machine that is not scheduled). On Linux it stands still while the whole computer is
	// suspended or a snapshot of it is kept (Go reads CLOCK_MONOTONIC, not CLOCK_BOOTTIME): who wakes from that
	// believes that no time has passed, as a waiter as well as a holder, until its next renewal. Only the fence keeps
	// it from writing.
	grantLease = 4 * time.Second
)

// NewWatchdog makes a Watchdog on c. Close it when no lease is held any more.
func NewWatchdog(c redis.UniversalClient, o WatchdogOptions) *Watchdog {
	def(&o.Lease, 30*time.Second)
	def(&o.MaxHold, 5*time.Minute)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	process := uuid.NewString()
	return &Watchdog{
		client: c, o: o, process: process, grants: newGrants(c, process, o.Logger), sweeper: newSweeper(),
		acks:  newAcks(o.Replicas, o.ReplicaTimeout, o.Lease),
		enter: newScript(queueSource + enterSource), leave: newScript(queueSource + leaveSource),
		renew: newScript(renewSource),
	}
}

// FenceRange is the distance between fences: queue.lua has the number.
func (w *Watchdog) FenceRange() uint64 { return 64 }

// Close ends the subscription, and gives up the releases that have not reached the server yet; their keys run out with the
// lease. Leases are not touched.
func (w *Watchdog) Close() error {
	w.sweeper.close()
	return w.grants.close()
}

// A stake is one acquisition: a key, and the value that stands for us in the lock or in the queue.
type stake struct {
	*Watchdog
	options    lock.Options
	key, value string
	names      []string // of the keys in Redis
}

func (w *Watchdog) stake(key string, o lock.Options) stake {
	name := "watchdog:" + tag(key)
	return stake{
		w, o, key, w.process + ":" + strconv.FormatUint(w.serial.Add(1), 10) + " " + o.Owner,
		[]string{name, name + ":fence", name + ":queue", name + ":seen"},
	}
}

// Acquire waits for its turn until ctx ends.
func (w *Watchdog) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	s := w.stake(key, o)
	queue := !o.TryOnce
	me := w.grants.expect(s.value)
	defer w.grants.forget(s.value)
	var held error // the last answer
	for {
		// Until the subscription stands, a grant would not be heard: a first try does not queue up yet.
		heard := w.grants.listening()
		number := w.grants.next(me)
		if !queue || !heard {
			number = 0
		}
		sent := time.Now()
		fence, err := s.ask(ctx, number)
		switch {
		case err == nil && late(sent, w.o.Lease) && queue:
			continue // we were stopped, or the answer was: whose it is now the server knows
		case err == nil && late(sent, w.o.Lease):
			detached(ctx, s.free)
			return nil, &lock.HeldError{Key: key}
		case err == nil:
			return s.hold(sent, fence, 0), nil
		case !errors.Is(err, lock.ErrHeld):
			return nil, errors.Join(held, err)
		case !queue:
			return nil, err
		}
		held = err
		if !heard {
			if err := w.grants.listen(ctx); err != nil {
				return nil, errors.Join(held, err)
			}
			continue
		}
		fence, err = s.await(ctx, me.come)
		if err != nil {
			return nil, errors.Join(held, err)
		}
		// A grant was made by another, who did not wait for our replicas: with Replicas it is asked for once more.
		if fence != lock.NoFence && w.o.Replicas == 0 && time.Since(sent) < lock.Valid(min(grantLease, w.o.Lease))/2 {
			return s.hold(sent, fence, grantLease), nil
		}
		// Not heard of, or heard so late that the grant may have run out: ask. What was granted still is found there.
	}
}

// await waits for a grant, or until it is time to ask again (NoFence). When ctx ends it gives up the place in the queue.
func (s stake) await(ctx context.Context, come <-chan lock.Fence) (lock.Fence, error) {
	timer := time.NewTimer(recheck - rand.N(recheck/4))
	defer timer.Stop()
	select {
	case fence := <-come:
		if fence != lock.NoFence {
			s.options.Woken()
		}
		return fence, nil
	case <-timer.C:
		return lock.NoFence, nil
	case <-ctx.Done():
		detached(ctx, s.free) // the place in the queue, and what may have been granted
		return lock.NoFence, context.Cause(ctx)
	}
}

// ask takes the lock if it is free, or else queues up unless number is 0. After any error but ErrHeld nothing is left
// behind.
func (s stake) ask(ctx context.Context, number uint64) (lock.Fence, error) {
	answered, short := s.acks.run(ctx, s.options, s.client, s.enter, s.names,
		s.value, s.o.Lease.Milliseconds(), grantLease.Milliseconds(), number)
	reply, err := answered.Slice()
	if err == nil {
		var fence lock.Fence
		fence, err = answer(s.key, reply)
		switch {
		case errors.Is(err, lock.ErrHeld):
			return 0, err
		case err == nil && short != nil:
			detached(ctx, s.free)
			return 0, short
		case err == nil:
			return fence, nil
		}
	}
	if refused(err) {
		return 0, refusal(s.names[0], err)
	}
	s.sweeper.recall(ctx, s.tell)
	return 0, failure(ctx, s.options, "acquire "+s.names[0], err)
}

// free gives everything up; it is ErrExpired or ErrTaken if the lock was not ours any more.
func (s stake) free(ctx context.Context) error {
	err := s.tell(ctx)
	if errors.Is(err, lock.ErrDown) {
		s.sweeper.add(s.tell, time.Now().Add(s.o.Lease))
	}
	return err
}

func (s stake) tell(ctx context.Context) error {
	return verdict(s.leave.run(ctx, s.client, s.names, s.value, grantLease.Milliseconds()).Int())
}

func (s stake) hold(sent time.Time, f lock.Fence, first time.Duration) *lock.Lease {
	l, _ := lock.NewLease(s.key, f, s.free)
	l.Keep(sent, lock.Keep{
		TTL: s.o.Lease, Every: s.o.Lease / 3, First: min(first, s.o.Lease), Max: s.o.MaxHold,
		Renew: func(ctx context.Context) error {
			reply, short := s.acks.run(ctx, s.options, s.client, s.renew, s.names[:1], s.value, s.o.Lease.Milliseconds())
			if err := verdict(reply.Int()); err != nil {
				return err
			}
			return short
		},
	})
	return l
}
