package lock

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// The errors of the contract. Match them with errors.Is: what is returned says more.
var (
	// ErrHeld: the wait ended, or the only try failed, while another held the key.
	ErrHeld = errors.New("held by another")
	// ErrLost: the lease ended before it was released. It comes with its cause, one of the three below or a
	// driver's own.
	ErrLost = errors.New("lock lost")
	// ErrExpired: the time limit of the lease passed, by the holder's clock or the server's.
	ErrExpired = errors.New("lease expired")
	// ErrTaken: the server names another owner.
	ErrTaken = errors.New("taken by another")
	// ErrReleased: the lease was given back, as planned.
	ErrReleased = errors.New("lock released")
	// ErrAbandoned: the lease was left to run out, because it is not known whether its holder's work is over.
	ErrAbandoned = errors.New("lock left to run out")
	// ErrNoCapacity: no connection was free to ask with, at once or until the wait ended. Nothing is known of the
	// holder.
	ErrNoCapacity = errors.New("no capacity")
	// ErrDown: the server did not answer, or said that it cannot serve. Nothing was done.
	ErrDown = errors.New("backend down")
	// ErrFull: the server has no room for more data, on its disk or in its memory. It is an ErrDown: nothing was done.
	ErrFull = errors.New("no room for more data")
	// ErrOutcomeUnknown: what was sent may or may not be done, and may still be under way. It is an error of the work
	// under a lock, not of the lock: see [Do] for what becomes of the lease.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrOverloaded: the queue in front of a server is full: nothing was done.
	ErrOverloaded = errors.New("overloaded")
)

// A HeldError is an ErrHeld that knows more about the holder.
type HeldError struct {
	Key       string
	Holder    string        // who holds it, by its Options.Owner; empty if not known
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

// Is makes a HeldError match ErrHeld.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// A lostError is an ErrLost with its key and cause.
type lostError struct {
	key   string
	cause error
}

func (e *lostError) Error() string        { return fmt.Sprintf("lock %q lost: %v", e.key, e.cause) }
func (e *lostError) Is(target error) bool { return target == ErrLost }
func (e *lostError) Unwrap() error        { return e.cause }

// A DownError is an ErrDown in words that are safe to show.
type DownError struct {
	Server string // redis, zookeeper or mysql
	Reason string // what is wrong and, where it is known, what mends it
	Full   bool   // the server has no room for more data, and can be read
}

func (e *DownError) Error() string { return e.Server + " is down: " + e.Reason }

// Is makes a DownError match ErrDown, and ErrFull if it is Full.
func (e *DownError) Is(target error) bool { return target == ErrDown || target == ErrFull && e.Full }

// Down wraps what a backend's client said into an error that matches ErrDown and err. doing says what was tried.
func Down(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, ErrDown, err)
}

// Conditional marks err, which matches ErrOutcomeUnknown, as that of a conditional write: one which changes nothing
// if another has written since the holder read, such as a compare-and-swap by version. It is for the work of [Do],
// and tells it that the lease can be released although the write may still happen. Every writer under the key must
// write so. Then, of two writes that go by the same read, whichever comes first makes the other one change nothing,
// and the order in which they come does not matter.
//
// A fence alone is not enough: the store learns of the next holder's fence only when that one writes, and by then the
// late write may have changed what the next holder has read. A nil err stays nil.
func Conditional(err error) error {
	if err == nil {
		return nil
	}
	return &conditionalError{err}
}

type conditionalError struct{ error }

func (e *conditionalError) Unwrap() error { return e.error }

// unsettled reports whether err tells of a write that may still happen and is not conditional.
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
