package lock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Options configure an acquisition. The zero value waits until ctx ends, for a caller without a name.
type Options struct {
	// TryOnce tries once and does not wait: if another holder has the key, the error matches ErrHeld.
	TryOnce bool

	// Owner is the name of the caller, such as "instance/request-id", for other callers to see. It need not be
	// unique: the lock identifies each acquisition by itself.
	Owner string

	// OnWake is called each time the lock's server wakes the caller while it waits, because something happened to the
	// key. With n waiters, a lock that wakes all of them at every release calls it n+(n-1)+...+1 times in all; a lock
	// that wakes only the next in line calls it n times. It is not called for a check after a pause, nor for a lease
	// that is handed over inside the process (see [HandOver]). OnWake must return quickly and be safe for concurrent
	// use. nil: none.
	OnWake func()

	// WaitFor bounds the wait for the lock, in Do, and for all keys together in All. After it the error matches ErrHeld
	// and context.DeadlineExceeded. 0: until ctx ends.
	WaitFor time.Duration

	// Wait, if not nil, replaces ctx for the wait for the lock: the wait ends when Wait ends. Only Do and All use it.
	// ctx then ends only the work. So a client that disconnects leaves the queue at once, but a write that has begun is
	// finished, because its outcome would otherwise be unknown. nil: ctx ends both.
	Wait context.Context
}

// bounded returns o with the bound of the wait in o.Wait, and a func to be called after the wait.
func (o Options) bounded(ctx context.Context) (Options, context.CancelFunc, error) {
	if o.Wait == nil {
		o.Wait = ctx
	}
	waited := func() {}
	switch {
	case o.WaitFor < 0:
		err := fmt.Errorf("lock: %w: the option WaitFor is %v, and must not be negative", ErrInvalid, o.WaitFor)
		return o, waited, err
	case o.WaitFor > 0:
		o.Wait, waited = context.WithTimeout(o.Wait, o.WaitFor)
		o.WaitFor = 0
	}
	return o, waited, nil
}

// Woken calls OnWake if there is one. It is for drivers.
func (o Options) Woken() {
	if o.OnWake != nil {
		o.OnWake()
	}
}

// heldKey is the context key of the lease that an enclosing Do holds. Re-entry depends on the caller's ctx, never on
// its goroutine.
type heldKey struct {
	l   Locker
	key string
}

// Do acquires key with the options o, calls work, and releases. If the lease is lost, the ctx of work ends with a
// cause that matches ErrLost. If ctx comes from an enclosing Do of the same locker and key, Do calls work under that
// lease.
//
// If work's error matches ErrOutcomeUnknown, a write of it may still happen after Do has returned. Do then does not
// release the lease but abandons it (see [Lease.Abandon]). The next holder gets the key only when the lease has run
// out, so it reads the result of the late write. The same applies to work in a nested Do, even if the outer work drops
// the error. It does not apply to an error that work has marked with [Conditional], because then the next holder need
// not wait.
//
// The same applies if work panics after that, or with such an error. Any other panic releases the lease.
//
// The error is the error of Acquire, or the error of work joined with the loss of the lease, even if only the release
// has shown that loss. Work may return the cause of its ctx: then the loss is in the error once. Another error of a
// release is not returned, because the lease runs out by itself; [Observe] reports it.
//
// Do does not promise that the write inside work came before the loss, so pass the fence to the store. Nor does it
// promise that a write of unknown outcome has ended when the lease runs out. This is true only if the rest of the
// lease, when the write is sent, is longer than the store's own time limit. A store without such a limit needs
// conditional writes.
func Do(
	ctx context.Context, l Locker, key string, o Options, work func(context.Context, Fence) error,
) error {
	if kind := reflect.TypeOf(l); !kind.Comparable() {
		return fmt.Errorf("lock: %w: a Locker of type %v cannot be compared; use a pointer", ErrInvalid, kind)
	}
	if outer, ok := ctx.Value(heldKey{l, key}).(*Lease); ok {
		if err := outer.Err(); err != nil {
			return err
		}
		return outer.during(func() error { return work(ctx, outer.Fence()) })
	}
	o, waited, err := o.bounded(ctx)
	if err != nil {
		return err
	}
	lease, err := l.Acquire(o.Wait, key, o)
	waited()
	if err != nil {
		return err
	}
	defer lease.conclude() // also after a panic
	// When ctx ends, the lease is no longer renewed. Otherwise work that continues after the end of ctx could hold the
	// key for ever.
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, lease.stopRenewing)()
	}

	inside, cancel := context.WithCancelCause(context.WithValue(ctx, heldKey{l, key}, lease))
	defer cancel(nil)
	lease.atEnd(func() { cancel(lease.Err()) })

	err = lease.during(func() error { return work(inside, lease.Fence()) })
	if loss := lossIn(lease.conclude()); loss != nil && !errors.Is(err, loss) {
		return errors.Join(err, loss)
	}
	return err
}

// during calls work, and notes whether a write of unknown outcome was reported, by its error or by a panic with one.
func (l *Lease) during(work func() error) (err error) {
	defer func() {
		reason := recover()
		if panicked, ok := reason.(error); ok && unsettled(panicked) || unsettled(err) {
			l.unsure.Store(true)
		}
		if reason != nil {
			panic(reason)
		}
	}()
	return work()
}

// conclude releases the lease, or abandons it if a write of unknown outcome was reported. After its first call it
// returns the same error and does nothing.
func (l *Lease) conclude() error {
	if l.unsure.Load() {
		l.Abandon()
	}
	return l.Release()
}
