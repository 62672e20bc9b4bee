package lock

import (
	"context"
	"errors"
	"time"
)

// Events are told what happens to the leases of an observed Locker. They must be quick; nil ones are skipped.
type Events struct {
	Waited   func(wait time.Duration, err error) // Acquire returned
	Ended    func(hold time.Duration, err error) // a lease ended: nil if not lost, else what matches ErrLost
	Stranded func(err error)                     // the server could not be told of a release; the key stays until its limit
	Woken    func()                              // a server woke a waiter, who looks whether it is its turn; see OnWake

	Abandoned func() // a lease was left to run out, see [Lease.Abandon]; Ended is told, too
}

// Observe is l, told about to e.
func Observe(l Locker, e Events) Locker { return &observed{l, e} }

type observed struct {
	Locker
	events Events
}

func (o *observed) Acquire(ctx context.Context, key string) (*Lease, error) {
	asked := time.Now()
	if o.events.Woken != nil {
		ctx = OnWake(ctx, o.events.Woken)
	}
	lease, err := o.Locker.Acquire(ctx, key)
	got := time.Now()
	if o.events.Waited != nil {
		o.events.Waited(got.Sub(asked), err)
	}
	if err != nil {
		return nil, err
	}
	if o.events.Ended != nil {
		context.AfterFunc(lease.held, func() {
			err := lease.Err()
			if errors.Is(err, ErrReleased) || errors.Is(err, ErrAbandoned) {
				err = nil
			}
			o.events.Ended(time.Since(got), err)
		})
	}
	if o.events.Abandoned != nil {
		context.AfterFunc(lease.held, func() {
			if errors.Is(lease.Err(), ErrAbandoned) {
				o.events.Abandoned()
			}
		})
	}
	if o.events.Stranded != nil {
		free := lease.free
		lease.free = func(ctx context.Context) error {
			err := free(ctx)
			if err != nil && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrTaken) {
				o.events.Stranded(err)
			}
			return err
		}
	}
	return lease, nil
}
