package service

import (
	"errors"
	"fmt"
)

// Errors of a sale that come only from a strategy.
var (
	ErrUnknownStrategy = errors.New("unknown strategy")
	// ErrOvertaken: a holder whose lease had expired has written since this sale read. Nothing was written.
	ErrOvertaken = errors.New("overtaken: a sale without the lock has written since the read")
	// ErrNotPaused: no sale of that request waits at a point of the lab.
	ErrNotPaused = errors.New("no such pause")
	// ErrTooOld: there is no such order, but the store may have removed orders that are this old.
	ErrTooOld = errors.New("order is so old that it may have been removed")
	// ErrKeyInFlight: the first request with the key is still under way in this instance.
	ErrKeyInFlight = errors.New("a request with this idempotency key is under way")
	// ErrNotInspectable: the strategy has no lock, or one that cannot show its holder.
	ErrNotInspectable = errors.New("lock cannot be inspected")
	// ErrNotEvictable: the strategy's lock has no fence, so that the evicted holder could still write.
	ErrNotEvictable = errors.New("lock cannot be taken from its holder")
	// ErrStockReset: a person set the stock between the read and the write. Nothing was written.
	ErrStockReset = errors.New("stock was set again since the read")
	// ErrSettled: the order's id was settled as absent, or is too old to be written. Nothing was written.
	ErrSettled = errors.New("order was settled as absent")
	// ErrUndecided: it is not known yet whether the order exists, because it is being written. Nothing was settled.
	ErrUndecided = errors.New("not decided yet")
)

// An OrderError is the error of a deduction. If it matches ErrOutcomeUnknown, pass its store, SKU and order id to
// [Service.Settle].
type OrderError struct {
	OrderID string
	Err     error
	SKU     SKU
	Store   string
}

func (e *OrderError) Error() string { return fmt.Sprintf("order %s: %v", e.OrderID, e.Err) }

func (e *OrderError) Unwrap() error { return e.Err }
