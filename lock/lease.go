package lock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ReleaseTimeout is the time limit of every release. After it Release returns. The driver repeats the release in the
// background; the key becomes free at the latest when the server's own time limit or the session ends.
const ReleaseTimeout = time.Second

// A Lease is one holding of a key, from Acquire to Release or loss. It is safe for concurrent use and is never
// reused.
type Lease struct {
	key   string
	fence Fence
	free  func(context.Context) error
	of    *share // set if the lease is a local holder's share of another one, which has a time limit of its own

	held context.Context         // ends with ErrReleased or a LostError as its cause
	end  context.CancelCauseFunc // of held: ends calls it

	due     *time.Timer   // starts the keeper, the goroutine of KeepAlive; nil: the lease has none
	kept    chan struct{} // closed when the keeper has ended
	mu      sync.Mutex    // guards until, retired, stop and told
	until   time.Time     // when the lease ends unless it is renewed; zero: it has no end
	retired bool          // stopRenewing has been called
	stop    func()        // ends the renewals; nil: the keeper has not begun

	// told is what ends calls; nil: nothing. [context.AfterFunc] would need a goroutine and five allocations for it.
	told func()

	once  sync.Once
	freed error

	observers []*observer // see Observe; complete before the caller has the lease
	leave     func()      // called by Abandon in place of free; nil: the server frees the key by itself
	unsure    atomic.Bool // work sent a write whose outcome is not known; see Do
}

// NewLease is for drivers. It returns a lease that is held from now on, and a function that the driver calls with the
// cause when the lease is lost. After its first call, or after Release, this function does nothing.
//
// free gives the key back to the server. It is called at most once, also after a loss, with its own context. It must
// return when this context ends, and tolerate a key that no longer exists or has another holder.
func NewLease(key string, f Fence, free func(context.Context) error) (*Lease, context.CancelCauseFunc) {
	l := &Lease{key: key, fence: f, free: free}
	l.held, l.end = context.WithCancelCause(context.Background())
	return l, l.lose
}

// lose ends the lease by a loss.
func (l *Lease) lose(cause error) { l.ends(&LostError{l.key, cause}) }

// ends ends the lease for its holder. The first cause counts.
func (l *Lease) ends(cause error) {
	l.end(cause)
	l.mu.Lock()
	told := l.told
	l.told = nil
	l.mu.Unlock()
	if told != nil {
		told()
	}
}

// atEnd makes the end of the lease call f, which must return quickly; at once if it has ended already.
func (l *Lease) atEnd(f func()) {
	l.mu.Lock()
	if first := l.told; first == nil {
		l.told = f
	} else {
		l.told = func() { first(); f() }
	}
	l.mu.Unlock()
	if err := l.Err(); err != nil {
		l.ends(err)
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

// Until returns the time until which the holder may rely on the lease if it is not renewed again, by the monotonic
// clock of this process. It is zero if the lease has no time limit, because it lives as long as a connection or a
// session. It promises nothing about a holder that stands still: see [Fence].
func (l *Lease) Until() time.Time {
	if l.of != nil {
		return l.of.b.lease.Until()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Release gives the key back. It is idempotent, takes at most ReleaseTimeout, and does not depend on any caller's
// context. After a loss it still removes this lease's data from the server, and returns the loss. If the server's
// answer shows that the key had been lost before, the error matches ErrLost, although Err then returns ErrReleased. Any
// other error means that the server did not answer: the driver repeats the release, and the key is free at the latest
// when its time limit passes.
//
// After Abandon it does nothing, and returns ErrAbandoned or the loss.
func (l *Lease) Release() error {
	l.once.Do(func() {
		began := time.Now()
		l.finish(ErrReleased)
		l.freed = l.giveBack(ReleaseTimeout - time.Since(began))
		if loss := l.Err(); errors.Is(loss, ErrLost) {
			l.freed = loss // of which the observers know
			return
		}
		if gone(l.freed) {
			l.freed = &LostError{l.key, l.freed}
		}
		for _, o := range l.observers {
			o.ended(began, lossIn(l.freed))
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
		if l.of != nil {
			l.of.abandon()
		} else if l.leave != nil {
			l.leave()
		}
	})
}

// Linger is for drivers whose server does not free a key by itself. A driver calls it once, before the caller has the
// lease. After Abandon the key stays taken for d, and then the driver's free is called. d should be at least as long as
// the key of a crashed holder would stay taken. The lock may be closed before d has passed, so free must tolerate a
// closed lock.
func (l *Lease) Linger(d time.Duration) {
	l.leave = func() {
		time.AfterFunc(d, func() { _ = l.giveBack(ReleaseTimeout) })
	}
}

// finish ends the lease in this process, and stops its renewal. It waits for a renewal under way, but leaves half of
// ReleaseTimeout to free the key.
func (l *Lease) finish(why error) {
	l.ends(why)
	if l.due == nil || l.due.Stop() {
		return
	}
	limit := time.NewTimer(ReleaseTimeout / 2)
	defer limit.Stop()
	select {
	case <-l.kept:
	case <-limit.C:
	}
}

// giveBack frees the key. If the server did not answer, it tells the observers.
func (l *Lease) giveBack(limit time.Duration) error {
	var err error
	if l.of != nil {
		err = l.of.release()
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		err = l.free(ctx)
	}
	if err != nil && !errors.Is(err, ErrExpired) && !errors.Is(err, ErrTaken) {
		for _, o := range l.observers {
			o.stranded(err)
		}
	}
	return err
}

// lossIn returns err if it is a loss, and otherwise nil.
func lossIn(err error) error {
	if errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// gone reports whether err, returned by free, means that the key no longer belonged to the lease.
func gone(err error) bool {
	return (errors.Is(err, ErrExpired) || errors.Is(err, ErrTaken)) && !errors.Is(err, ErrLost) &&
		!errors.Is(err, ErrDown)
}
