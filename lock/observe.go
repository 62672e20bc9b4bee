package lock

import (
	"context"
	"time"
)

// Events are the callbacks of an observed Locker. They must return quickly. Nil ones are skipped.
type Events struct {
	Waited func(wait time.Duration, err error) // Acquire returned
	Ended  func(hold time.Duration, err error) // a lease ended; err is nil, or matches ErrLost if the lease was lost
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
	lease, err := o.Locker.Acquire(ctx, key, opts)
	got := time.Now()
	if o.events.Waited != nil {
		o.events.Waited(got.Sub(asked), err)
	}
	if err != nil {
		return nil, err
	}
	lease.observe(got, o.events)
	return lease, nil
}
