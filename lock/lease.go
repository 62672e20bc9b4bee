package lock

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ReleaseTimeout bounds every release. A release that takes longer is abandoned: the server's own time limit, or the end of
// the session, frees the key.
const ReleaseTimeout = time.Second

// A Lease is one holding of a key, from Acquire to Release or loss. It is safe for concurrent use and is never reused.
type Lease struct {
	key   string
	fence Fence
	free  func(context.Context) error

	held context.Context // ends with ErrReleased or a lostError as its cause
	end  context.CancelCauseFunc

	renewing context.Context // ends with held, or when StopRenewing is called
	retire   context.CancelFunc
	due      *time.Timer // starts the keeper; nil: the lease has none
	keeper   sync.WaitGroup

	once  sync.Once
	freed error
}

// NewLease is for drivers: a lease that is held from now on. free gives the key back to the server; it is called exactly
// once, also after a loss, on a context of its own, and must tolerate a key that is gone or somebody else's.
// The driver calls the second result to say "lost, because"; after the first such call, or after Release, it does nothing.
func NewLease(key string, f Fence, free func(context.Context) error) (*Lease, context.CancelCauseFunc) {
	l := &Lease{key: key, fence: f, free: free}
	l.held, l.end = context.WithCancelCause(context.Background())
	l.renewing, l.retire = context.WithCancel(l.held)
	return l, func(cause error) { l.end(&lostError{key, cause}) }
}

// Key is the key that is held.
func (l *Lease) Key() string { return l.key }

// Fence is the fencing token to carry to the write; NoFence if the lock cannot issue one.
func (l *Lease) Fence() Fence { return l.fence }

// Done is closed on release or loss; Err then says which.
func (l *Lease) Done() <-chan struct{} { return l.held.Done() }

// Err is nil while the lease is held, ErrReleased after Release, and otherwise matches ErrLost and its cause.
func (l *Lease) Err() error { return context.Cause(l.held) }

// Keep runs [KeepAlive] for the lease and reports the loss that it finds. Release ends it and waits for it, so that no
// renewal outlives the lease. sent is a time before the acquiring request left. It is for drivers, once, before the lease is handed out.
//
// The goroutine for it begins when there is something to renew or to lose, not with the lease: nearly every lease is released
// long before that, and to start a goroutine and wait for its end cost a fifth of the CPU time of an uncontended turn.
func (l *Lease) Keep(sent time.Time, k Keep) {
	l.keeper.Add(1)
	l.due = time.AfterFunc(time.Until(k.due(sent)), func() {
		defer l.keeper.Done()
		if err := KeepAlive(l.held, l.renewing, sent, k); err != nil {
			l.end(&lostError{l.key, err})
		}
	})
}

// StopRenewing lets the lease run out: it is still held until its time limit passes or it is released. A lease that
// is not renewed, or not limited in time, does not change.
func (l *Lease) StopRenewing() { l.retire() }

// Release gives the key back. It is idempotent, bounded by ReleaseTimeout, and does not depend on any caller's context.
// After a loss it still asks the server to remove what is ours, and returns the loss. A loss that nobody had noticed until the
// server was asked matches ErrLost, too, although Err, which ended before that, is ErrReleased. An error that does not match ErrLost
// means that the server could not be told: the key then stays until its time limit.
func (l *Lease) Release() error {
	l.once.Do(func() {
		l.end(ErrReleased)
		if l.due != nil && l.due.Stop() {
			l.keeper.Done()
		}
		l.keeper.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), ReleaseTimeout)
		defer cancel()
		l.freed = l.free(ctx)
		switch loss := l.Err(); {
		case errors.Is(loss, ErrLost):
			l.freed = loss
		case gone(l.freed):
			l.freed = &lostError{l.key, l.freed}
		}
	})
	return l.freed
}

// gone is whether the server said, when it was asked to free a key, that it was not ours any more.
func gone(err error) bool {
	return (errors.Is(err, ErrExpired) || errors.Is(err, ErrTaken)) && !errors.Is(err, ErrLost) && !errors.Is(err, ErrDown)
}
