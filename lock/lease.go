package lock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ReleaseTimeout is the time limit of every release. After it Release returns, and the key becomes free when the
// server's own time limit or the session ends.
const ReleaseTimeout = time.Second

// A Lease is one holding of a key, from Acquire to Release or loss. It is safe for concurrent use and is never
// reused.
type Lease struct {
	key   string
	fence Fence
	free  func(context.Context) error
	bound bool // free ignores its ctx, because it releases another lease, which has a time limit of its own

	held context.Context // ends with ErrReleased or a LostError as its cause
	end  context.CancelCauseFunc

	due     *time.Timer // starts the keeper, the goroutine of Keep; nil: the lease has none
	keeper  sync.WaitGroup
	mu      sync.Mutex // guards retired and stop
	retired bool       // StopRenewing has been called
	stop    func()     // ends the renewals; nil: the keeper has not begun
	retire  func()     // called by StopRenewing; nil: none

	once  sync.Once
	freed error

	leave    func()      // called by Abandon in place of free; nil: nothing to do, the server frees the key by itself
	unsure   atomic.Bool // work in a nested Do sent a write whose outcome is not known
	stranded func(error) // called if the server did not answer a release; nil: none
}

// NewLease is for drivers. It returns a lease that is held from now on, and a function that the driver calls with the
// cause when the lease is lost. After its first call, or after Release, this function does nothing.
//
// free gives the key back to the server. It is called at most once, also after a loss, with its own context. It must
// tolerate a key that no longer exists or has another holder.
func NewLease(key string, f Fence, free func(context.Context) error) (*Lease, context.CancelCauseFunc) {
	l := newLease(key, f, free)
	return l, func(cause error) { l.end(&LostError{key, cause}) }
}

func newLease(key string, f Fence, free func(context.Context) error) *Lease {
	l := &Lease{key: key, fence: f, free: free}
	l.held, l.end = context.WithCancelCause(context.Background())
	return l
}

// observe makes the lease, which was acquired at got, report its end to e. It must be called before the caller has
// the lease.
func (l *Lease) observe(got time.Time, e Events) {
	if e.Ended != nil || e.Abandoned != nil {
		context.AfterFunc(l.held, func() {
			err := l.Err()
			if errors.Is(err, ErrAbandoned) && e.Abandoned != nil {
				e.Abandoned()
			}
			if errors.Is(err, ErrReleased) || errors.Is(err, ErrAbandoned) {
				err = nil
			}
			if e.Ended != nil {
				e.Ended(time.Since(got), err)
			}
		})
	}
	if e.Stranded != nil {
		inner := l.stranded
		l.stranded = func(err error) {
			if inner != nil {
				inner(err)
			}
			e.Stranded(err)
		}
	}
}

// Key returns the key that is held.
func (l *Lease) Key() string { return l.key }

// Fence returns the fencing token for the write, or NoFence if the lock cannot issue one.
func (l *Lease) Fence() Fence { return l.fence }

// Done returns a channel that is closed on release, abandonment or loss. Then Err returns which.
func (l *Lease) Done() <-chan struct{} { return l.held.Done() }

// Err returns nil while the lease is held, ErrReleased after Release, ErrAbandoned after Abandon, and otherwise an
// error that matches ErrLost and its cause.
func (l *Lease) Err() error { return context.Cause(l.held) }

// Keep runs [KeepAlive] for the lease and reports a loss. Release ends KeepAlive and waits for it, so that no renewal
// continues after the lease. sent is a time before the acquiring request was sent. A driver calls Keep at most once,
// before the caller has the lease.
//
// The goroutine starts only when the first renewal is due or the lease may end. Nearly every lease is released
// earlier and needs none.
func (l *Lease) Keep(sent time.Time, k Keep) {
	l.keeper.Add(1)
	l.due = time.AfterFunc(time.Until(k.due(sent)), func() {
		defer l.keeper.Done()
		renewing, stop := context.WithCancel(l.held)
		defer stop()
		l.mu.Lock()
		if l.stop = stop; l.retired {
			stop()
		}
		l.mu.Unlock()
		if err := KeepAlive(l.held, renewing, sent, k); err != nil {
			l.end(&LostError{l.key, err})
		}
	})
}

// StopRenewing lets the lease run out: it is still held until its time limit passes or it is released. It has no
// effect on a lease that is not renewed or has no time limit.
func (l *Lease) StopRenewing() {
	if l.retire != nil {
		l.retire()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired = true; l.stop != nil {
		l.stop()
	}
}

// Release gives the key back. It is idempotent, takes at most ReleaseTimeout, and does not depend on any caller's
// context. After a loss it still removes this lease's data from the server, and returns the loss. If the server's
// answer shows that the key had been lost before, the error matches ErrLost, although Err then returns ErrReleased. Any
// other error means that the server did not answer: the key stays taken until its time limit.
//
// After Abandon it does nothing, and returns ErrAbandoned or the loss.
func (l *Lease) Release() error {
	l.once.Do(func() {
		l.finish(ErrReleased)
		l.freed = l.giveBack()
		switch loss := l.Err(); {
		case errors.Is(loss, ErrLost):
			l.freed = loss
		case gone(l.freed):
			l.freed = &LostError{l.key, l.freed}
		}
	})
	return l.freed
}

// Abandon ends the lease for its holder without freeing the key: the lease is neither renewed nor released. [Do]
// calls it after work of unknown outcome, because a write that was sent may still happen.
//
// The key stays taken until its time limit at the server passes. If the server has no such limit, because the key
// lives as long as a connection, a session or this process, the key is given back after the time that the driver has
// set with [Lease.Linger].
//
// If this process ends or the server loses its data, the key may become free earlier.
//
// Abandon costs no round trip. After Release or Abandon it does nothing. After a loss it removes nothing from the
// server.
func (l *Lease) Abandon() {
	l.once.Do(func() {
		l.finish(ErrAbandoned)
		l.freed = l.Err()
		if l.leave != nil {
			l.leave()
		}
	})
}

// finish ends the lease in this process, and stops its renewal.
func (l *Lease) finish(why error) {
	l.end(why)
	if l.due != nil && l.due.Stop() {
		l.keeper.Done()
	}
	l.keeper.Wait()
}

// giveBack calls free. If the server did not answer, it calls stranded.
func (l *Lease) giveBack() error {
	ctx := context.Background()
	if !l.bound {
		limited, cancel := context.WithTimeout(context.Background(), ReleaseTimeout)
		defer cancel()
		ctx = limited
	}
	err := l.free(ctx)
	if err != nil && l.stranded != nil && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrTaken) {
		l.stranded(err)
	}
	return err
}

// gone reports whether err, returned by free, means that the key no longer belonged to the lease.
func gone(err error) bool {
	return (errors.Is(err, ErrExpired) || errors.Is(err, ErrTaken)) && !errors.Is(err, ErrLost) &&
		!errors.Is(err, ErrDown)
}
