// Package repo connects to Redis and to MySQL. It sends scripts and transactions, converts their errors, and migrates
// the MySQL schema.
//
// Package repo/stock is the store on top of it.
package repo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// An answerCounter counts the operations that a server has answered.
type answerCounter struct {
	answers atomic.Uint64
	full    atomic.Bool // the server is full: it has refused a write, and no probe has succeeded since then
}

// Answers returns the number of operations that the server has answered, including refusals. A health probe whose own
// request is slow compares two results, to find out whether the server still answers other requests.
func (c *answerCounter) Answers() uint64 { return c.answers.Load() }

// CountAnswer counts an operation that ended with err, unless err means that the server did not answer.
func (c *answerCounter) CountAnswer(err error) {
	if errors.Is(err, lock.ErrFull) {
		c.full.Store(true)
	}
	if errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrOverloaded) ||
		errors.Is(err, service.ErrOutcomeUnknown) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	c.answers.Add(1)
}

// OutcomeUnknown reports a write that was sent and not answered.
func OutcomeUnknown(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, service.ErrOutcomeUnknown, err)
}

// Idempotent returns the error of a request that is safe to repeat. Instead of an unknown outcome it reports a server
// that is down, or the cause of ctx.
func Idempotent(ctx context.Context, doing string, err error) error {
	switch {
	case !errors.Is(err, service.ErrOutcomeUnknown):
		return err
	case ctx.Err() != nil:
		return CtxEnded(ctx, doing)
	}
	return driver.Down(doing, errors.New(err.Error()))
}

// CtxEnded returns the error for a ctx that ended before anything was done, if only the server can have delayed the
// caller. If the deadline has passed, the error blames the server: it matches lock.ErrDown. Otherwise the caller has
// ended ctx, and the error matches the caller's cause.
func CtxEnded(ctx context.Context, doing string) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return driver.Down(doing, cause)
	}
	return WaitEnded(ctx, doing)
}

// WaitEnded is like CtxEnded, for a wait that other clients may have prolonged. So its error never blames the server.
func WaitEnded(ctx context.Context, doing string) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%s: %w: %w", doing, ctx.Err(), cause)
	}
	return fmt.Errorf("%s: %w", doing, ctx.Err())
}

// Attempts is how often a transaction is run, at most, if InnoDB rolls it back to resolve a deadlock.
const Attempts = 5
