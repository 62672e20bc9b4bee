package mysqllock

import (
	"context"
	"errors"
	"fmt"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

var (
	// errBusy: another has it. The session is as it was.
	errBusy = errors.New("held")
	// errAgain: the server ended the statement for a reason that the next try may not meet.
	errAgain = errors.New("interrupted by the server")
)

// collided tells whether the statement, which had a transaction of its own, was undone in favour of another.
func collided(err error) bool {
	n := mysqlerr.Number(err)
	return n == mysqlerr.Deadlock || n == mysqlerr.LockWaitTimeout
}

// fault is what a failed statement means to who asked under ctx.
func fault(ctx context.Context, doing string, err error) error {
	n := mysqlerr.Number(err)
	switch {
	case errors.Is(err, lock.ErrDown):
		return fmt.Errorf("%s: %w", doing, err)
	case n == 0 && ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx)) // the wait was over; that says nothing of the server
	case n == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		// Our own bound, which must not be taken for the caller's.
		return fmt.Errorf("%s: %w", doing, &lock.DownError{Server: "mysql", Reason: "no answer within " + answerTimeout.String()})
	case n == 0:
		return lock.Down(doing, err)
	}
	if reason := mysqlerr.DownReason(n); reason != "" {
		return fmt.Errorf("%s: %w: %w", doing, &lock.DownError{Server: "mysql", Reason: reason}, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}
