// Package repo keeps stock and orders in Redis and in MySQL, and migrates the MySQL schema.
//
// Both stores keep the same promises and pass the same table of clauses (see clauses_test.go). They share one idea: the
// server writes the order and the deduction in one step, a script or a transaction. So initial = remaining + sold can
// only be broken by a lost update, and never by a crash, a broken connection or a retry.
//
// There is one file per subject and store. A sale is read from top to bottom in redis.go and in mysql.go.
package repo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"example.com/stock/gate"
	"example.com/stock/lock"
	"example.com/stock/service"
)

// KeepOrders is how long the orders of an epoch that is over are kept: long enough to look into what happened. Redis
// counts from the end of the epoch. MySQL counts from each order, and removes old ones when the stock is set again. The
// orders of the current epoch do not expire.
const KeepOrders = 24 * time.Hour

const (
	// writeWithin is how long after it was made an order may be written, by the clock of the store's server. The rest
	// of KeepOrders allows for the difference between that clock and an instance's, and for the time that a server
	// takes to finish what it has begun.
	writeWithin = KeepOrders / 2
	// maxSettled bounds the ids of a SKU that are remembered as absent: any client may ask, and each id takes some 100
	// bytes for KeepOrders.
	maxSettled = 100_000
)

var errTooManySettled = fmt.Errorf("%w: %d orders of this SKU are settled already", service.ErrUndecided, maxSettled)

// An answerCounter counts the operations that a server has answered.
type answerCounter struct{ answers atomic.Uint64 }

// Answers returns the number of operations that the server has answered, refusals included. A health probe uses it to
// tell a server that is silent from one that is slow to answer the probe.
func (c *answerCounter) Answers() uint64 { return c.answers.Load() }

// countAnswer counts an operation that ended with err, unless err says that the server did not answer.
func (c *answerCounter) countAnswer(err error) {
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

// idempotentFailure reports a failed request that is safe to repeat. It matches lock.ErrDown, or what ended ctx, and
// not service.ErrOutcomeUnknown.
func idempotentFailure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return ctxEnded(ctx, doing)
	}
	return lock.Down(doing, errors.New(err.Error()))
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

// checkQuantity refuses a quantity that stock cannot have. SQL has its CHECK; Redis would accept any number.
func checkQuantity(field string, quantity int64) error {
	if quantity < 0 || quantity > service.MaxStock {
		return &service.InvalidError{Field: field, Reason: fmt.Sprintf("must be from 0 to %d", service.MaxStock)}
	}
	return nil
}

// checkRefill refuses a refill that would make or lose units.
func checkRefill(r service.Refill) error {
	seen := map[int]bool{0: true, r.Into.Number: true}
	for _, row := range r.From {
		if row.Number < 0 || row.Version == 0 || seen[row.Number] {
			return &service.InvalidError{Field: "segment", Reason: "must be one that was read, and each another"}
		}
		seen[row.Number] = true
	}
	if r.Into.Number < 1 {
		return &service.InvalidError{Field: "segment", Reason: "must be 1 or more"}
	}
	return checkQuantity("reserve", r.Reserve)
}

// checkOrder refuses an order that would put stock back, or leave less than none.
func checkOrder(o service.Order) error {
	if o.Quantity < 1 || o.Quantity > service.MaxQuantity {
		reason := fmt.Sprintf("must be from 1 to %d", service.MaxQuantity)
		return &service.InvalidError{Field: "quantity", Reason: reason}
	}
	return checkQuantity("remaining", o.Remaining)
}

// checkBatch refuses a batch that is not of one SKU. What is wrong with a single order is for that order.
func checkBatch(orders []service.Order) error {
	for _, o := range orders {
		switch {
		case o.SKU != orders[0].SKU:
			return &service.InvalidError{Field: "sku", Reason: "must be the same for all orders of a batch"}
		case o.Segment != 0:
			return &service.InvalidError{Field: "segment", Reason: "must be 0 in a batch"}
		}
	}
	return nil
}

// madeAt returns the time at which an order was made. It is part of the id, a UUID of version 7 that the service made.
func madeAt(id string) (time.Time, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return time.Time{}, &service.InvalidError{
			Field: "order_id", Reason: "must be one that this service has made: a UUID of version 7, in lower case",
		}
	}
	seconds, nanoseconds := u.Time().UnixTime()
	return time.Unix(seconds, nanoseconds), nil
}

// writtenBy returns the time until which o may be written. An id that the service did not make cannot be settled; then
// the order's own time counts.
func writtenBy(o service.Order) time.Time {
	made, err := madeAt(o.ID)
	if err != nil {
		made = o.CreatedAt
	}
	return made.Add(writeWithin)
}

// enter waits until g admits the operation, for half of the time that is left at most: the other half is for the
// server.
func enter(ctx context.Context, g *gate.Gate, doing, key string) (leave func(), err error) {
	admission := service.AdmissionOf(ctx)
	request := gate.Request{Key: key, Begun: admission.Begun, Wait: admission.Wait}
	if deadline, ok := ctx.Deadline(); ok {
		request.Until = time.Now().Add(time.Until(deadline) / 2)
	}
	leave, err = g.Enter(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return leave, nil
}

// A cursor is a place in the orders of one epoch: an index in Redis, a sequence number in MySQL. Its text is opaque to
// callers.
type cursor struct {
	epoch uint64 // 0: the first page of the current epoch
	after int64
}

func (c cursor) String() string { return fmt.Sprintf("%d.%d", c.epoch, c.after) }

// parseCursor accepts what String returned, and "".
func parseCursor(s string) (cursor, error) {
	if s == "" {
		return cursor{}, nil
	}
	epoch, after, _ := strings.Cut(s, ".")
	e, err1 := strconv.ParseUint(epoch, 10, 64)
	a, err2 := strconv.ParseInt(after, 10, 64)
	if err1 != nil || err2 != nil || e == 0 || a < 0 {
		return cursor{}, &service.InvalidError{Field: "cursor", Reason: `must be the "next" of an earlier page`}
	}
	return cursor{e, a}, nil
}

func checkLimit(limit int) error {
	if limit < 1 {
		return &service.InvalidError{Field: "limit", Reason: "must be at least 1"}
	}
	return nil
}
