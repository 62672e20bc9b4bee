package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"example.com/stock/lock"
)

// A Dependency is a server that a strategy or a store needs.
type Dependency interface {
	// Err is nil while the server can be used, and otherwise a driver.DownError.
	Err() error
	// Up returns a ctx that ends, with Err as its cause, when the server goes down. While it is down, it has ended.
	Up() context.Context
}

// While returns a ctx that also ends when one of needs goes down. Then its cause is the Err of this Dependency.
func While(ctx context.Context, needs ...Dependency) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, 0, 4)
	for _, need := range needs {
		up := need.Up()
		if up.Done() == nil {
			continue // it never ends
		}
		if up.Err() != nil {
			// The current error is preferred to the cause of up, because the reason may have changed.
			cancel(cmp.Or(need.Err(), context.Cause(up)))
		}
		stops = append(stops, context.AfterFunc(up, func() { cancel(context.Cause(up)) }))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// slow replaces err by a lock.ErrOverloaded if err only means that a server was up but too slow, and nothing was
// written. This is load, not an outage. A server that hangs counts as slow until the health probe finds it down.
func slow(err error, needs ...Dependency) error {
	if !errors.Is(err, lock.ErrDown) || !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, ErrOutcomeUnknown) || errors.Is(err, lock.ErrLost) {
		return err
	}
	for _, need := range needs {
		if need.Err() != nil {
			return err
		}
	}
	// Only the text of err is kept: the result must not match ErrDown.
	return fmt.Errorf("up but slow: %w: %s", lock.ErrOverloaded, err.Error())
}

// busy replaces err by a lock.ErrOverloaded if err only means that a server was up but too slow, and nothing was
// written. It keeps a lock.ErrHeld, which means that the lock was not free in time.
func busy(err error, needs ...Dependency) error {
	if errors.Is(err, lock.ErrHeld) {
		return slow(err, needs...)
	}
	return overdue(slow(err, needs...))
}

// overdue replaces err by a lock.ErrOverloaded if err only means that the time ended between two statements. It must
// not be used for errors of a lock.
func overdue(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrDown) && !errors.Is(err, ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %s", lock.ErrOverloaded, err.Error())
	}
	return err
}
