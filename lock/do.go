package lock

import (
	"context"
	"errors"
)

// Options say how to acquire a lock. The zero value waits until ctx ends, for a caller without a name.
type Options struct {
	// TryOnce makes one try in place of a wait: a key that another holds is ErrHeld at once.
	TryOnce bool

	// Owner is the name of the caller, such as "instance/request-id". It is shown to others. It is no identity: every
	// acquisition has its own.
	Owner string

	// OnWake is called each time that the lock's server wakes the caller while it waits: the server reported that
	// something had happened to the key, and the caller looked whether it was next. Of n waiters, a lock that wakes
	// them all at every release does so n+(n-1)+...+1 times until the last one is served; one that wakes the next in
	// line does so n times. Two things are not counted: a look because time has passed, and a lease that is handed
	// over inside the process (see [HandOver]). OnWake must be quick, and safe for concurrent use. nil: nobody is told.
	OnWake func()

	// Wait, of [Do] alone, ends the wait for the lock in place of ctx, which then ends the work alone. The two differ
	// when a client goes away: it leaves the queue at once, but a write that has begun is finished, or its outcome
	// would be unknown. nil: ctx ends both.
	Wait context.Context
}

// Woken is for drivers: it calls OnWake if there is one.
func (o Options) Woken() {
	if o.OnWake != nil {
		o.OnWake()
	}
}

// heldKey finds the lease that an enclosing Do holds. It is the one thing of this package which travels in a context:
// re-entry goes by the scope that a ctx is of, never by goroutine.
type heldKey struct {
	l   Locker
	key string
}

// Do acquires key as o says, calls work, and releases. The ctx that work gets ends, with a cause that matches
// ErrLost, when the lease is lost. A ctx that already carries a lease of the same locker and key (it comes from an
// enclosing Do) re-enters.
//
// If work's error matches ErrOutcomeUnknown, a write of it may still happen after Do has returned. The lease is then
// not released but abandoned (see [Lease.Abandon]): the next holder comes when the lease has run out by itself, so
// that it reads what the late write has written. That holds for work in a nested Do, too, even if the work around it
// has swallowed the error. It does not hold for an error that work has marked with [Conditional]: the next holder is
// then safe, and need not wait.
//
// The error is Acquire's, or work's joined with the loss of the lease. A release that fails is not the work's
// failure: the lease runs out by itself, and [Observe] sees it.
//
// What Do does not promise: that the write inside work came before the loss. Give its fence to the store. Nor that a
// write of unknown outcome is over when the lease has run out: for that what is left of the lease when the write is
// sent must be longer than the store's own limit for it. A store without a limit needs conditional writes.
func Do(
	ctx context.Context, l Locker, key string, o Options, work func(context.Context, Fence) error,
) error {
	if outer, ok := ctx.Value(heldKey{l, key}).(*Lease); ok {
		if err := outer.Err(); err != nil {
			return err
		}
		err := work(ctx, outer.Fence())
		if unsettled(err) {
			outer.unsure.Store(true)
		}
		return err
	}
	wait := ctx
	if o.Wait != nil {
		wait = o.Wait
	}
	lease, err := l.Acquire(wait, key, o)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release() }()
	// A watchdog must not keep a lease alive for work that was told to stop and did not.
	defer context.AfterFunc(ctx, lease.StopRenewing)()

	inside, cancel := context.WithCancelCause(context.WithValue(ctx, heldKey{l, key}, lease))
	defer cancel(nil)
	defer context.AfterFunc(lease.held, func() { cancel(lease.Err()) })()

	err = work(inside, lease.Fence())
	loss := lease.Err()
	if unsettled(err) || lease.unsure.Load() {
		lease.Abandon()
	}
	if loss != nil {
		return errors.Join(err, loss)
	}
	return err
}
