package lock

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ReleaseTimeout bounds every release. A release that takes longer is abandoned: the server's own time limit, or
// the end of the session, frees the key.
const ReleaseTimeout = time.Second

// A Lease is one holding of a key, from Acquire to Release or loss. It is safe for concurrent use and is never reused.
type Lease struct {
	key   string
	fence Fence
	free  func(context.Context) error
	bound bool // free bounds itself, and takes no ctx

	held context.Context // ends with ErrReleased or a lostError as its cause
	end  context.CancelCauseFunc

	due     *time.Timer // starts the keeper; nil: the lease has none
	keeper  sync.WaitGroup
	mu      sync.Mutex // of the two below
	retired bool       // StopRenewing has been called
	stop    func()     // ends the renewals; nil: the keeper has not begun
	retire  func()     // is told of StopRenewing; nil: nobody is

	once  sync.Once
	freed error

	leave    func()      // what Abandon does in place of free; nil: nothing, the server frees the key by itself
	unsure   atomic.Bool // a nested Do has left a write behind whose outcome is not known
	stranded func(error) // is told if the server could not be told of a release; nil: nobody is
}

// NewLease is for drivers: a lease that is held from now on. free gives the key back to the server; it is called
// exactly once, also after a loss, on a context of its own, and must tolerate a key that is gone or somebody
// else's. The driver calls the second result to say "lost, because"; after the first such call, or after Release,
// it does nothing.
func NewLease(key string, f Fence, free func(context.Context) error) (*Lease, context.CancelCauseFunc) {
	l := newLease(key, f, free)
	return l, func(cause error) { l.end(&lostError{key, cause}) }
}

func newLease(key string, f Fence, free func(context.Context) error) *Lease {
	l := &Lease{key: key, fence: f, free: free}
	l.held, l.end = context.WithCancelCause(context.Background())
	return l
}

// observe tells e how the lease, which was acquired at got, ends. It is for [Observe], before the lease is handed out.
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

// Key is the key that is held.
func (l *Lease) Key() string { return l.key }

// Fence is the fencing token to carry to the write; NoFence if the lock cannot issue one.
func (l *Lease) Fence() Fence { return l.fence }

// Done is closed on release or loss; Err then says which.
func (l *Lease) Done() <-chan struct{} { return l.held.Done() }

// Err is nil while the lease is held, ErrReleased after Release, ErrAbandoned after Abandon, and otherwise matches
// ErrLost and its cause.
func (l *Lease) Err() error { return context.Cause(l.held) }

// Keep runs [KeepAlive] for the lease and reports the loss that it finds. Release ends it and waits for it, so that
// no renewal outlives the lease. sent is a time before the acquiring request left. It is for drivers, once, before
// the lease is handed out.
//
// The goroutine for it, and what it needs, begin when there is something to renew or to lose, not with the lease:
// nearly every lease is released long before that, and to start a goroutine and wait for its end cost a fifth of the
// CPU time of an uncontended turn.
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
			l.end(&lostError{l.key, err})
		}
	})
}

// StopRenewing lets the lease run out: it is still held until its time limit passes or it is released. A lease that
// is not renewed, or not limited in time, does not change.
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

// Release gives the key back. It is idempotent, bounded by ReleaseTimeout, and does not depend on any caller's
// context. After a loss it still asks the server to remove what is ours, and returns the loss. A loss that nobody
// had noticed until the server was asked matches ErrLost, too, although Err, which ended before that, is
// ErrReleased. An error that does not match ErrLost means that the server could not be told: the key then stays
// until its time limit.
//
// After Abandon it does nothing, and returns what Err does.
func (l *Lease) Release() error {
	l.once.Do(func() {
		l.finish(ErrReleased)
		l.freed = l.giveBack()
		switch loss := l.Err(); {
		case errors.Is(loss, ErrLost):
			l.freed = loss
		case gone(l.freed):
			l.freed = &lostError{l.key, l.freed}
		}
	})
	return l.freed
}

// Abandon ends the lease for its holder and frees the key for nobody: the lease is neither renewed nor released from
// now on. It is for work whose outcome is not known, because a write that was sent may still happen: see [Do], which
// calls it.
//
// The key stays taken until the time limit that the server has put on it, so for what was left of the lease when
// Abandon was called: all of it less the time since the last renewal, or since the acquisition if the lock does not
// renew. Where the server has no such limit, because the key lives as long as a connection, a session or this
// process, it stays taken for the time that the driver has set with [Lease.Linger], and is then given back.
//
// What is not promised: that the key outlives what it lives in. A process that ends, or a server that forgets, frees
// it sooner.
//
// Abandon costs no round trip. After Release, or a second time, it does nothing. After a loss it leaves on the server
// what may be ours there still.
func (l *Lease) Abandon() {
	l.once.Do(func() {
		l.finish(ErrAbandoned)
		l.freed = l.Err()
		if l.leave != nil {
			l.leave()
		}
	})
}

// finish ends the lease here, and its renewal.
func (l *Lease) finish(why error) {
	l.end(why)
	if l.due != nil && l.due.Stop() {
		l.keeper.Done()
	}
	l.keeper.Wait()
}

// giveBack tells the server.
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

// gone reports whether the server, asked to free a key, said that it was not ours any more.
func gone(err error) bool {
	return (errors.Is(err, ErrExpired) || errors.Is(err, ErrTaken)) && !errors.Is(err, ErrLost) &&
		!errors.Is(err, ErrDown)
}
