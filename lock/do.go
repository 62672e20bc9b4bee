package lock

import (
	"context"
	"errors"
)

type (
	noWaitKey struct{}
	waitKey   struct{}
	ownerKey  struct{}
	// heldKey finds the lease that an enclosing Do holds: re-entry goes by what the ctx carries, never by goroutine.
	heldKey struct {
		l   Locker
		key string
	}
)

// NoWait makes a ctx with which Acquire tries once and answers ErrHeld at once.
func NoWait(ctx context.Context) context.Context { return context.WithValue(ctx, noWaitKey{}, true) }

// IsNoWait is for drivers: whether ctx allows one try only.
func IsNoWait(ctx context.Context) bool { return ctx.Value(noWaitKey{}) != nil }

// WithWait makes a ctx with which [Do] waits for the lock until wait ends, and works until ctx does. The two differ when
// a client goes away: it leaves the queue at once, but a write that has begun is finished, or its outcome would be unknown.
func WithWait(ctx, wait context.Context) context.Context {
	return context.WithValue(ctx, waitKey{}, wait)
}

// Wait is the ctx that bounds the wait for a lock under ctx: that of [WithWait], or ctx itself.
func Wait(ctx context.Context) context.Context {
	if wait, ok := ctx.Value(waitKey{}).(context.Context); ok {
		return wait
	}
	return ctx
}

// WithOwner makes a ctx that says who asks, such as "instance/request-id". It is shown to others; it is no identity: every
// acquisition has its own.
func WithOwner(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, ownerKey{}, who)
}

// Owner is who asks, by [WithOwner], or "".
func Owner(ctx context.Context) string {
	who, _ := ctx.Value(ownerKey{}).(string)
	return who
}

// Do acquires key, calls work, and releases. The ctx that work gets ends, with a cause that matches ErrLost, when the
// lease is lost. A ctx that already carries a lease of the same locker and key (it comes from an enclosing Do)
// re-enters.
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
func Do(ctx context.Context, l Locker, key string, work func(context.Context, Fence) error) error {
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
	lease, err := l.Acquire(Wait(ctx), key)
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
