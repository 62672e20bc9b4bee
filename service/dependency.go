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
	// Err is nil while the server can be used, and otherwise a lock.DownError.
	Err() error
	// Up returns a ctx that ends, with Err as its cause, when the server goes down. It has ended while the server is.
	Up() context.Context
}

// While returns a ctx that also ends when one of needs goes down, with its Err as the cause. It is one ctx for all of
// them: each costs a sale about a hundredth of its time.
func While(ctx context.Context, needs ...Dependency) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stops := make([]func() bool, 0, 4)
	for _, need := range needs {
		up := need.Up()
		if up.Err() != nil {
			// The reason that holds now, which need not be the one that up ended with.
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

// slow is err, unless all that it says is that a server which is up did not finish in time, and that nothing was done:
// that is load and no outage, and turns into lock.ErrOverloaded. One that hangs is called so until the health probe has
// found that out.
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
	// The text of err alone: it must not match ErrDown any more.
	return fmt.Errorf("slow, and up: %w: %s", lock.ErrOverloaded, err.Error())
}

// Busy is err, unless all that it says is that a server which is up did not finish in time, and that nothing was done:
// that is lock.ErrOverloaded. A lock that was not free in time is another thing.
//
// It is for other use cases on the same stores, such as package order: a store is slow or overloaded in the same words
// for all.
func Busy(err error, needs ...Dependency) error {
	if errors.Is(err, lock.ErrHeld) {
		return slow(err, needs...)
	}
	return overdue(slow(err, needs...))
}

// overdue is err, unless all that it says is that the time was over between two statements: lock.ErrOverloaded. There
// is no lock here that was not free.
func overdue(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrDown) && !errors.Is(err, ErrOutcomeUnknown) {
		return fmt.Errorf("%w: %s", lock.ErrOverloaded, err.Error())
	}
	return err
}
