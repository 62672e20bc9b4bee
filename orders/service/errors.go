package service

import (
	"errors"
	"fmt"
)

var (
	ErrUnknownSKU   = errors.New("no such SKU")
	ErrNotFound     = errors.New("no such order or reservation") // or it is another customer's
	ErrExpired      = errors.New("the reservation has expired, and its units are sold")
	ErrBelowZero    = errors.New("fewer units are available than are to be taken off")
	ErrTooMany      = errors.New("the stock would have more than 1,000,000,000 units")
	ErrPrecondition = errors.New("the stock has moved since it was read")
	ErrKeyReused    = errors.New("the idempotency key was used for another request")
	ErrCursor       = errors.New("not a cursor of this list")
	ErrUnbalanced   = errors.New("the books do not balance") // nothing was written
	ErrBusy         = errors.New("too many requests want the same units; nothing was written")
	ErrDown         = errors.New("the database does not answer; nothing was written")
	ErrUnknown      = errors.New("the database did not answer whether it has written")
)

// A Shortage is a line for which not enough is in stock.
type Shortage struct {
	SKU                  string
	Requested, Available int64
}

// A ShortError names every line for which not enough is in stock. Nothing was sold.
type ShortError struct{ Lines []Shortage }

func (e *ShortError) Error() string {
	first := e.Lines[0]
	return fmt.Sprintf("%d of %s left, %d requested; %d lines are short",
		first.Available, first.SKU, first.Requested, len(e.Lines))
}

// A LimitError: the customer would have more units of the SKU than one customer may have.
type LimitError struct {
	SKU              string
	Limit, Remaining int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("a customer may have %d of %s, and may still have %d", e.Limit, e.SKU, e.Remaining)
}

// What Limits limit.
const (
	OpenReservations = "open"  // the number of open reservations
	ReservedUnits    = "units" // the units in them, of all SKUs together
)

// A TooManyError: the customer has as many open reservations, or units in them, as one customer may have.
type TooManyError struct {
	Of               string // OpenReservations or ReservedUnits
	Limit, Remaining int64
}

func (e *TooManyError) Error() string {
	return fmt.Sprintf("a customer may have %d (%s) in reservations, and may still have %d", e.Limit, e.Of, e.Remaining)
}

// A StateError has the state of an order or a reservation that has ended in another way.
type StateError struct{ State string }

func (e *StateError) Error() string { return "it is " + e.State + " already" }
