package lock

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The errors of the contract. Match them with errors.Is: the returned errors wrap them and contain more.
var (
	// ErrHeld: the wait ended, or the only try failed, while another holder had the key.
	ErrHeld = errors.New("held by another")
	// ErrLost: the lease ended before it was released. It is joined with its cause, such as ErrExpired or ErrTaken.
	ErrLost = errors.New("lock lost")
	// ErrExpired: the time limit of the lease passed, by the holder's clock or the server's.
	ErrExpired = errors.New("lease expired")
	// ErrTaken: the server reports another owner.
	ErrTaken = errors.New("taken by another")
	// ErrReleased: the lease was released by its holder.
	ErrReleased = errors.New("lock released")
	// ErrAbandoned: the lease was left to run out, because the work under it may not have ended.
	ErrAbandoned = errors.New("lock left to run out")
	// ErrNoCapacity: no connection was free, at once or until the wait ended. Nothing is known about the holder.
	ErrNoCapacity = errors.New("no capacity")
	// ErrDown: the server did not answer, or answered that it cannot process requests. The key was not acquired.
	ErrDown = errors.New("backend down")
	// ErrFull: the server has no room for more data, on its disk or in its memory. It is an ErrDown: nothing was done.
	ErrFull = errors.New("no room for more data")
	// ErrDenied: the server refuses until a person grants a right or changes a setting of it. It is an ErrDown: nothing
	// was done, and another try will fail as well.
	ErrDenied = errors.New("not permitted")
	// ErrOutcomeUnknown: a write was sent and not answered. It may have happened, and may still happen later. It is
	// an error of the work under a lock, not of the lock. See [Do] for what happens to the lease.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrClosed: the lock was closed, before the call or while it waited. Nothing was acquired.
	ErrClosed = errors.New("lock closed")
	// ErrInvalid: a key or an option has a value that no lock accepts. The error names it. Nothing was sent.
	ErrInvalid = errors.New("invalid")
	// ErrOverloaded: the queue in front of a server is full. Nothing was sent.
	ErrOverloaded = errors.New("overloaded")
)

// A HeldError is an ErrHeld with what is known about the holder.
type HeldError struct {
	Key       string
	Holder    string        // the holder's Options.Owner; empty if not known
	Remaining time.Duration // how long the lease still runs if it is not renewed; 0 if not known
}

func (e *HeldError) Error() string {
	s := fmt.Sprintf("lock %q is held", e.Key)
	if e.Holder != "" {
		s += " by " + e.Holder
	}
	if e.Remaining > 0 {
		s += fmt.Sprintf(" for up to %v", e.Remaining)
	}
	return s
}

func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A LostError is an ErrLost with the key and the cause.
type LostError struct {
	Key   string
	Cause error
}

func (e *LostError) Error() string { return fmt.Sprintf("lock %q lost: %v", e.Key, e.Cause) }

func (e *LostError) Is(target error) bool { return target == ErrLost }

func (e *LostError) Unwrap() error { return e.Cause }

// An ExpiredError is an ErrExpired that the holder's own clock has found.
type ExpiredError struct {
	After   time.Duration // time since the lease was requested
	Maximum bool          // the lease reached the longest hold
}

func (e *ExpiredError) Error() string {
	if e.Maximum {
		return fmt.Sprintf("%v: held for the maximum of %v", ErrExpired, e.After)
	}
	return fmt.Sprintf("%v after %v", ErrExpired, e.After)
}

func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// Conditional marks err, which matches ErrOutcomeUnknown, as the error of a conditional write. Such a write changes
// nothing if another client has written since the holder read: a compare-and-swap by version, for example. The work
// of [Do] returns it so that Do releases the lease although the write may still happen. Every writer under the key
// must write conditionally. Then, of two writes after the same read, the second to arrive changes nothing.
//
// A fence alone is not enough: the store sees the next holder's fence only with the next holder's write, and before
// that the late write may have changed the data that the next holder has read. Conditional returns nil for a nil err.
func Conditional(err error) error {
	if err == nil {
		return nil
	}
	return &conditionalError{err}
}

type conditionalError struct{ error }

func (e *conditionalError) Unwrap() error { return e.error }

// unsettled reports whether err contains an unknown outcome of a write that is not conditional.
func unsettled(err error) bool {
	if _, marked := err.(*conditionalError); marked || err == nil {
		return false
	}
	if err == ErrOutcomeUnknown {
		return true
	}
	if matching, ok := err.(interface{ Is(error) bool }); ok && matching.Is(ErrOutcomeUnknown) {
		return true
	}
	switch wrapped := err.(type) {
	case interface{ Unwrap() error }:
		return unsettled(wrapped.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(wrapped.Unwrap(), unsettled)
	}
	return false
}
