// Package relay announces what the ledger says: it reads the movements of every SKU in order of their numbers, gives
// them to a [Sink], and records how far it has got.
//
// One relay at a time works, under a lock with a fence. What it promises:
//
//   - Every movement is delivered, at least once. What is recorded as delivered was delivered; a relay that is killed
//     between the two delivers it again.
//   - In order for each SKU: nobody gets number n+1 before n, unless a person has said that n is to be left out.
//   - A relay whose lock was lost delivers nothing more that counts: its record is refused by the fence. What it was
//     sending just then is a copy of what the next relay sends, and can come late. [Streams] refuse it; the receiver of
//     a [Webhook] must recognise it by its id.
//   - A movement that cannot be delivered stops its own SKU only.
//
// What it does not promise: order between SKUs, or that each event comes once.
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

// A Config says what a Relay works on. The fields without a default are needed.
type Config struct {
	Outbox order.Outbox
	Book   order.Book
	Dead   order.DeadLetters
	Sink   Sink

	// Lock keeps out other relays. It must be fenced and hold across machines, or two relays record at once. Its fences
	// must not become smaller: a change to a lock whose fences are not by a clock stops the relay for good.
	Lock  lock.Locker
	Key   string // of the lock: no SKU, or selling it would wait for the relay
	Owner string // shown to whoever asks for the holder of the lock

	Parallel int // SKUs that are delivered at a time; default 16. So many receivers that hang stop all
	Batch    int // movements that are read at a time, before another SKU has its turn; default 100
	Attempts int // refusals of an event until it is parked; default 20, which takes an hour

	Poll    time.Duration // the ledger is asked so often when all is delivered; default 200 ms
	Term    time.Duration // the lock is given back after this, which is less than the longest hold; default 1 min
	Grace   time.Duration // what is being delivered at the end of Run has so long; default 5 s
	Backoff time.Duration // before the second attempt, doubled with each; default 1 s
	// MaxBackoff bounds the pause after a refusal; default 5 min. A receiver that is away is asked every 10 s at the
	// least: nothing else tells that it is back.
	MaxBackoff time.Duration

	Log      *slog.Logger // default: nobody
	Observer Observer
}

// Events are told what a Relay does. They must be quick, and safe for concurrent use; nil ones are skipped.
type Observer struct {
	Active    func(bool) // this relay has got, or lost, the lock
	Delivered func()     // an event was delivered
	Failed    func()     // an attempt failed
	Lag       func(Lag)  // what is to be delivered, every five seconds while this relay has the lock
}

// A Lag says how much is to be delivered.
type Lag struct {
	Undelivered uint64        // movements, of 1000 SKUs at most
	Oldest      time.Duration // age of the oldest of them, by the clock of the store's server; 0: none
	Parked      int           // dead letters
}

const (
	pageSize      = 256                    // SKUs, or letters, that are read at a time
	markEvery     = 250 * time.Millisecond // while delivering: what a crash repeats
	lagEvery      = 5 * time.Second
	lagSKUs       = 1000
	lettersEvery  = time.Second
	maxAway       = 10 * time.Second
	awayPace      = 100 * time.Millisecond // between two SKUs while the receiver does not answer
	maxLater      = time.Hour              // that a receiver can ask for
	againAfter    = time.Second
	storeDeadline = 5 * time.Second // of one request to the store
)

// A Relay delivers the movements of one store. Make it with New.
type Relay struct {
	c     Config
	stuck stuckEvents // of Run's goroutine alone
}

// New returns a Relay. It opens nothing.
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
	return &Relay{c: c, stuck: make(stuckEvents)}
}

// Run relays until ctx ends. Then it lets what is being delivered come to its end, within Grace, records it, and gives
// the lock back. It waits for the store and the lock for as long as they are away. It can be called once.
func (r *Relay) Run(ctx context.Context) {
	bad := false
	for ctx.Err() == nil {
		err := r.hold(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if bad {
				r.c.Log.Info("events are relayed again")
			}
			bad = false
			continue
		case !bad:
			r.c.Log.Warn("no events are relayed from here", "err", err)
			bad = true
		default:
			r.c.Log.Debug("no events are relayed from here", "err", err)
		}
		_ = lock.Sleep(ctx, againAfter/2+rand.N(againAfter))
	}
}

// term relays for one holding of the lock. It returns nil at its planned end.
func (r *Relay) hold(ctx context.Context) error {
	// The end of ctx ends the wait for the lock, but not what is being delivered: see turn.loop.
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
