// Package repo keeps stock and orders in Redis and in MySQL, and brings the MySQL schema up and down.
//
// Both stores keep the same promises and pass the same table of sentences (see store_test.go). What they share is one idea: the order
// and the deduction are one step of the server's, a script or a transaction, so that initial = remaining + sold can only be
// broken by a lost update and never by a crash, a broken connection or a retry.
package repo

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/stock/gate"
	"example.com/stock/lock"
	"example.com/stock/service"
)

// An ear counts what a server has answered.
type ear struct{ answers atomic.Uint64 }

// Answers counts the operations that the server has answered, refusals included. It is for who wants to know whether
// the server is silent for all or for them alone.
func (e *ear) Answers() uint64 { return e.answers.Load() }

// heard notes an answer, if err says that there was one.
func (e *ear) heard(err error) {
	if errors.Is(err, lock.ErrDown) || errors.Is(err, service.ErrOutcomeUnknown) || errors.Is(err, lock.ErrOverloaded) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	e.answers.Add(1)
}

// unknown is for a write that was sent and not answered.
func unknown(doing string, err error) error {
	return fmt.Errorf("%s: %w: %w", doing, service.ErrOutcomeUnknown, err)
}

// harmless is unknown for what may happen or not without anybody being the worse for it: it matches lock.ErrDown, or what ended ctx, instead.
func harmless(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return ended(ctx, doing)
	}
	return lock.Down(doing, errors.New(err.Error()))
}

// ended says why ctx ended before anything was done. A deadline that passed while only the server kept us waiting is the
// server's fault, and matches lock.ErrDown; any other end is the caller's, and matches what the caller gave as its cause.
func ended(ctx context.Context, doing string) error {
	if cause := context.Cause(ctx); errors.Is(cause, context.DeadlineExceeded) {
		return lock.Down(doing, cause)
	}
	return stopped(ctx, doing)
}

// stopped is ended for a wait that another client, not the server, may have made long: it blames nobody.
func stopped(ctx context.Context, doing string) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%s: %w: %w", doing, ctx.Err(), cause)
	}
	return fmt.Errorf("%s: %w", doing, ctx.Err())
}

func unknownSKU(sku service.SKU) error { return fmt.Errorf("%w %q", service.ErrUnknownSKU, sku) }

// checkQuantity keeps what is no stock out of the stores. SQL has its CHECK; Redis would take anything.
func checkQuantity(field string, quantity int64) error {
	if quantity < 0 || quantity > service.MaxStock {
		return &service.InvalidError{Field: field, Reason: fmt.Sprintf("must be from 0 to %d", service.MaxStock)}
	}
	return nil
}

// checkGathering keeps out what would make or lose units.
func checkGathering(g service.Refill) error {
	seen := map[int]bool{0: true, g.Into.Number: true}
	for _, row := range g.From {
		if row.Number < 0 || row.Version == 0 || seen[row.Number] {
			return &service.InvalidError{Field: "segment", Reason: "must be one that was read, and each another"}
		}
		seen[row.Number] = true
	}
	if g.Into.Number < 1 {
		return &service.InvalidError{Field: "segment", Reason: "must be 1 or more"}
	}
	return checkQuantity("reserve", g.Reserve)
}

// checkOrder keeps out an order that would put stock back, or leave less than none.
func checkOrder(o service.Order) error {
	if o.Quantity < 1 || o.Quantity > service.MaxQuantity {
		return &service.InvalidError{Field: "quantity", Reason: fmt.Sprintf("must be from 1 to %d", service.MaxQuantity)}
	}
	return checkQuantity("remaining", o.Remaining)
}

// enter waits for a turn at g: for half of the time that is left at most, so that what is let in can be served.
func enter(ctx context.Context, g *gate.Gate, doing, key string) (leave func(), err error) {
	admission := service.AdmissionOf(ctx)
	turn := gate.Request{Key: key, Begun: admission.Begun, Wait: admission.Wait}
	if deadline, ok := ctx.Deadline(); ok {
		turn.Until = time.Now().Add(time.Until(deadline) / 2)
	}
	leave, err = g.Enter(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return leave, nil
}
