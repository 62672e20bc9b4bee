package service

import (
	"errors"
	"fmt"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Errors of a sale, besides those of package lock (a store that is down is lock.ErrDown too). Match with errors.Is
// and errors.As.
var (
	// ErrInvalid: a field of the request is invalid. Nothing was done. It comes as an InvalidError.
	ErrInvalid    = errors.New("invalid request")
	ErrUnknownSKU = errors.New("unknown SKU")
	// ErrSoldOut: too few units are left. It is a normal result, not a failure, and comes as a SoldOutError.
	ErrSoldOut = errors.New("sold out")
	// ErrStaleFence: a later holder has written already. Nothing was written.
	ErrStaleFence = errors.New("stale fence: a later holder has written")
	// ErrGuarded: another strategy guards the stock. It comes as a GuardError.
	ErrGuarded = errors.New("stock is guarded by another strategy")
	// ErrConflict: another sale has written since the read. Nothing was written.
	ErrConflict = errors.New("another sale has written since the read")
	// ErrPrecondition: the condition for setting the stock does not hold. Nothing was written.
	ErrPrecondition = errors.New("the condition on the stock does not hold")
	// ErrOutcomeUnknown: the connection broke after the write was sent. The order may exist, or may still be written.
	// [Service.Settle] decides it.
	ErrOutcomeUnknown = lock.ErrOutcomeUnknown
	// ErrStopping: the instance is stopping, and the request had not reached its lock or store. Nothing was written.
	ErrStopping        = errors.New("the instance is stopping")
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

// An InvalidError names the field that is wrong. Reason is the code of a text in the language files, and Values fill
// in that text, such as the limit. It is safe to show.
type InvalidError struct {
	Field, Reason string
	Values        []any // pairs of a name in the text and its value
}

// Invalid returns an InvalidError. values alternates between the names in the text of reason and their values.
func Invalid(field, reason string, values ...any) *InvalidError {
	return &InvalidError{field, reason, values}
}

func (e *InvalidError) Error() string { return e.Field + " " + driver.Coded(e.Reason, e.Values) }

func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// A SoldOutError has the number of units that are left: fewer than the request asked for.
type SoldOutError struct{ Remaining int64 }

func (e *SoldOutError) Error() string { return fmt.Sprintf("sold out: %d left", e.Remaining) }

func (e *SoldOutError) Is(target error) bool { return target == ErrSoldOut }

// A GuardError names the strategy that guards the stock. Strategies do not exclude each other, so selling with two
// would oversell.
type GuardError struct{ Guard string }

func (e *GuardError) Error() string { return "stock is guarded by strategy " + e.Guard }

func (e *GuardError) Is(target error) bool { return target == ErrGuarded }

// ErrDataLost: the store came back without its data, or with other data. Nothing was sold. It comes as a DataLostError.
var ErrDataLost = errors.New("the store has lost its data")

// A DataLostError names the store. Its text is safe to show, and says what to do.
type DataLostError struct{ Store string }

func (e *DataLostError) Error() string {
	return fmt.Sprintf("%s has lost its data, or came back with other data: nothing is sold from it until a person "+
		"has set the stock (PUT /v1/stock/{sku}?store=%s)", e.Store, e.Store)
}

func (e *DataLostError) Is(target error) bool { return target == ErrDataLost }

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
