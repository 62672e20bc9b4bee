package lock

import (
	"context"
	"errors"
	"time"
)

// Events are the callbacks of an observed Locker. They must return quickly. Nil ones are skipped.
type Events struct {
	// Asked: Acquire was called. The result is the ctx for the Locker, and a func that is called when it has returned.
	Asked  func(ctx context.Context, key string) (context.Context, func(error))
	Waited func(ctx context.Context, wait time.Duration, err error) // Acquire returned
	// Ended: a lease ended. err is nil, or matches ErrLost if the lease was lost, even if only the release has shown
	// that. ctx is that of Acquire. Ended is called when the release has been answered; hold ends with its request.
	Ended func(ctx context.Context, hold time.Duration, err error)
	// Stranded: the server did not answer a release; the key stays taken until its time limit
	Stranded func(err error)
	// Woken: the server woke a waiter; see Options.OnWake
	Woken func()

	Abandoned func() // a lease was left to run out, see [Lease.Abandon]; Ended is called, too
}

// Observe returns l with callbacks: it reports events to e.
func Observe(l Locker, e Events) Locker { return &observed{l, e} }

type observed struct {
	Locker
	events Events
}

func (o *observed) Acquire(ctx context.Context, key string, opts Options) (*Lease, error) {
	asked := time.Now()
	if woken := o.events.Woken; woken != nil {
		caller := opts
		opts.OnWake = func() {
			woken()
			caller.Woken()
		}
	}
	inner, answered := ctx, func(error) {}
	if o.events.Asked != nil {
		inner, answered = o.events.Asked(ctx, key)
	}
	lease, err := o.Locker.Acquire(inner, key, opts)
	answered(err)
	got := time.Now()
	if o.events.Waited != nil {
		o.events.Waited(ctx, got.Sub(asked), err)
	}
	if err != nil {
		return nil, err
	}
	to := &observer{&o.events, lease, ctx, got}
	lease.observers = append(lease.observers, to)
	lease.atEnd(to.leaseEnded)
	return lease, nil
}

// An observer reports the end of a lease.
type observer struct {
	to    *Events
	lease *Lease
	ctx   context.Context // of Acquire
	got   time.Time       // when Acquire returned
}

// leaseEnded is called at the end of the lease. Release reports its own end, when the server has answered.
func (o *observer) leaseEnded() {
	switch err := o.lease.Err(); {
	case errors.Is(err, ErrReleased):
	case errors.Is(err, ErrAbandoned):
		if o.to.Abandoned != nil {
			o.to.Abandoned()
		}
		o.ended(time.Now(), nil)
	default:
		o.ended(time.Now(), err)
	}
}

func (o *observer) ended(at time.Time, loss error) {
	if o.to.Ended != nil {
		o.to.Ended(o.ctx, at.Sub(o.got), loss)
	}
}

func (o *observer) stranded(err error) {
	if o.to.Stranded != nil {
		o.to.Stranded(err)
	}
}
