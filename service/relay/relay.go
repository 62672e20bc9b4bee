// Package relay publishes the movements of a ledger: it reads the movements of every SKU in the order of their
// numbers, delivers them to a [Sink], and records the last delivered number.
//
// One relay works at a time, under a lock with a fence. It promises:
//
//   - Every movement is delivered at least once. If a relay is killed between the delivery and its record, the movement
//     is delivered again.
//   - The movements of each SKU are delivered in order. Number n+1 is not delivered before n, unless a person decided
//     to skip n.
//   - If a relay has lost its lock, the store refuses its records because of the smaller fence. An event that it was
//     sending is also sent by the next relay, and the first copy may arrive late. [Streams] refuse it; the receiver of
//     a [Webhook] must recognise repeats by their id.
//   - A movement that cannot be delivered delays only its own SKU.
//
// It does not promise an order between SKUs, or that each event arrives once.
package relay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service/order"
)

// A Config has the settings of a Relay. Fields without a default are required.
type Config struct {
	Outbox order.Outbox
	Book   order.Book
	Dead   order.DeadLetters
	Sink   Sink

	// Lock excludes other relays. It must have a fence and exclude callers on other machines; otherwise two relays
	// record at the same time. Its fences must never decrease: after a change to a lock with smaller fences, the store
	// refuses all records.
	Lock  lock.Locker
	Key   string // key of the lock; not a SKU, whose sales the lock would block
	Owner string // the name of the holder that lock.Inspect shows

	Parallel int // SKUs that are delivered at a time; default 16. If all of these hang, no other SKU is delivered
	Batch    int // movements of a SKU that are delivered before another SKU's turn; default 100
	Attempts int // refusals of an event until it is parked; default 20, which takes an hour

	Poll    time.Duration // pause between two reads of the ledger when everything is delivered; default 200 ms
	Term    time.Duration // time until the lock is released; shorter than the lock's longest hold; default 1 min
	Grace   time.Duration // time for deliveries under way at the end of Run; default 5 s
	Backoff time.Duration // pause before the second attempt, doubled with each; default 1 s
	// MaxBackoff is the longest pause after a refusal; default 5 min. A receiver that is not available is tried at
	// least every 10 s, because only an attempt shows that it is back.
	MaxBackoff time.Duration

	Log      *slog.Logger // default: none
	Observer Observer
}

// An Observer has functions that a Relay calls. They must be quick and safe for concurrent use; nil ones are skipped.
type Observer struct {
	Active    func(bool) // this relay has acquired (true) or lost or released the lock
	Delivered func()     // an event was delivered
	Failed    func()     // an attempt failed
	Lag       func(Lag)  // the lag, every five seconds while this relay has the lock
	// Deliver is called before each attempt. It returns the ctx for the Sink, and a func that gets the result.
	Deliver func(context.Context, Event) (context.Context, func(error))
}

// A Lag counts what is not delivered yet.
type Lag struct {
	Undelivered uint64        // movements, of 1000 SKUs at most
	Oldest      time.Duration // age of the oldest of them, by the clock of the store's server; 0: none
	Parked      int           // dead letters
}

const (
	pageSize      = 256                    // SKUs, or dead letters, that are read at a time
	markEvery     = 250 * time.Millisecond // between two records; deliveries since the last are repeated after a crash
	lagEvery      = 5 * time.Second
	lagSKUs       = 1000
	lettersEvery  = time.Second
	maxAway       = 10 * time.Second
	awayPace      = 100 * time.Millisecond // between two SKUs while the receiver does not answer
	maxLater      = time.Hour              // the longest pause that a receiver can ask for
	againAfter    = time.Second
	storeDeadline = 5 * time.Second // for one request to the store
)

// A Relay delivers the movements of one store. Make it with New.
type Relay struct {
	c     Config
	stuck stuckEvents // used only by Run's goroutine
}

// New returns a Relay. It connects to nothing.
func New(c Config) *Relay {
	c.Parallel = cmp.Or(c.Parallel, 16)
	c.Batch = cmp.Or(c.Batch, 100)
	c.Attempts = cmp.Or(c.Attempts, 20)
	c.Poll = cmp.Or(c.Poll, 200*time.Millisecond)
	c.Term = cmp.Or(c.Term, time.Minute)
	c.Grace = cmp.Or(c.Grace, 5*time.Second)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, 5*time.Minute)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	e := &c.Observer
	if e.Active == nil {
		e.Active = func(bool) {}
	}
	if e.Delivered == nil {
		e.Delivered = func() {}
	}
	if e.Failed == nil {
		e.Failed = func() {}
	}
	if e.Lag == nil {
		e.Lag = func(Lag) {}
	}
	if e.Deliver == nil {
		e.Deliver = func(ctx context.Context, _ Event) (context.Context, func(error)) { return ctx, func(error) {} }
	}
	return &Relay{c: c, stuck: make(stuckEvents)}
}

// Run relays until ctx ends. Then it lets deliveries under way finish, within Grace, records them, and releases the
// lock. If the store or the lock fails, Run tries again. Run may be called only once.
func (r *Relay) Run(ctx context.Context) {
	bad := false
	for ctx.Err() == nil {
		err := r.hold(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if bad {
				r.c.Log.Info("this relay delivers events again")
			}
			bad = false
			continue
		case !bad:
			r.c.Log.Warn("this relay delivers no events", "err", err)
			bad = true
		default:
			r.c.Log.Debug("this relay delivers no events", "err", err)
		}
		_ = lock.Sleep(ctx, againAfter/2+rand.N(againAfter))
	}
}

// hold acquires the lock and relays for one term. It returns nil at the planned end of the term.
func (r *Relay) hold(ctx context.Context) error {
	// When ctx ends, the wait for the lock ends, but deliveries under way do not: see term.loop.
	o := lock.Options{Owner: r.c.Owner, Wait: ctx}
	return lock.Do(context.WithoutCancel(ctx), r.c.Lock, r.c.Key, o, func(work context.Context, f lock.Fence) error {
		if f == lock.NoFence {
			return errors.New("the lock of the relay has no fence")
		}
		r.c.Log.Debug("relaying", "fence", f)
		r.c.Observer.Active(true)
		defer r.c.Observer.Active(false)
		return newTerm(r, work, ctx.Done(), uint64(f)).loop()
	})
}
