// Package repo keeps stock and orders in Redis and in MySQL, and migrates the MySQL schema.
//
// Both stores keep the same promises and pass the same table of clauses (see clauses_test.go). They share one idea: the
// server writes the order and the deduction in one step, a script or a transaction. So initial = remaining + sold can
// only be broken by a lost update, and never by a crash, a broken connection or a retry.
//
// There is one file per subject and store. A sale is read from top to bottom in redis_store.go and in mysql_store.go;
// how a script or a transaction is sent, and what its errors mean, is in redis.go and in mysql.go.
package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/repo/gate"
	"example.com/stock/service"
)

// An answerCounter counts the operations that a server has answered.
type answerCounter struct {
	answers atomic.Uint64
	full    atomic.Bool // the server has refused one for lack of room, and no probe has found room since
}

// Answers returns the number of operations that the server has answered, refusals included. A health probe uses it to
// tell a server that is silent from one that is slow to answer the probe.
func (c *answerCounter) Answers() uint64 { return c.answers.Load() }

// countAnswer counts an operation that ended with err, unless err says that the server did not answer.
func (c *answerCounter) countAnswer(err error) {
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

// outcomeUnknown reports a write that was sent and not answered.
func outcomeUnknown(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, service.ErrOutcomeUnknown, err)
}

// ctxEnded reports that ctx ended before anything was done. A deadline that passed while only the server kept the
// caller waiting is the server's fault, and matches lock.ErrDown. Any other end is the caller's, and matches the cause
// that the caller gave.
func ctxEnded(ctx context.Context, doing string) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return lock.Down(doing, cause)
	}
	return waitEnded(ctx, doing)
}

// waitEnded is ctxEnded for a wait that another client, and not the server, may have made long: it blames nobody.
func waitEnded(ctx context.Context, doing string) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%s: %w: %w", doing, ctx.Err(), cause)
	}
	return fmt.Errorf("%s: %w", doing, ctx.Err())
}

func unknownSKU(sku service.SKU) error { return fmt.Errorf("%w %q", service.ErrUnknownSKU, sku) }

func staleFence(seen any) error {
	return fmt.Errorf("%w (it had fence %v)", service.ErrStaleFence, seen)
}

// enter waits until g admits the operation, for half of the time that is left at most: the other half is for the
// server.
func enter(ctx context.Context, g *gate.Gate, doing, key string) (leave func(), err error) {
	request := gate.Request{Key: key, Begun: service.Begun(ctx), Wait: service.WaitOf(ctx)}
	if deadline, ok := ctx.Deadline(); ok {
		request.Until = time.Now().Add(time.Until(deadline) / 2)
	}
	leave, err = g.Enter(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return leave, nil
}

// encode cannot fail: all values of the types have a JSON form, except times after the year 9999.
func encode(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// checkQuantity refuses a quantity that stock cannot have. SQL has its CHECK; Redis would accept any number.
func checkQuantity(field string, quantity int64) error {
	if quantity < 0 || quantity > service.MaxStock {
		return service.Invalid(field, "from-to", "least", 0, "most", service.MaxStock)
	}
	return nil
}

func checkLimit(limit int) error {
	if limit < 1 {
		return service.Invalid("limit", "least", "least", 1)
	}
	return nil
}
