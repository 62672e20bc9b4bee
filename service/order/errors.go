package order

import (
	"errors"
	"fmt"
	"time"

	"example.com/stock/service"
)

// Errors besides those of packages service and lock. Match with errors.Is and errors.As.
var (
	// ErrNotFound: there is no such order or reservation, or it is another customer's.
	ErrNotFound = errors.New("no such order or reservation")
	// ErrKeyReused: the idempotency key was used for another request. Nothing was written.
	ErrKeyReused = service.ErrKeyReused
	// ErrShort: not enough is in stock for all lines. It comes as a ShortError.
	ErrShort = errors.New("not enough in stock")
	// ErrLimit: the customer would have more units than allowed. It comes as a LimitError.
	ErrLimit = errors.New("limit per customer reached")
	// ErrHold: a reservation would exceed one of the Limits. It comes as a HoldError.
	ErrHold = errors.New("too many reservations")
	// ErrEarly: the last extension was too short a time ago. It comes as an EarlyError.
	ErrEarly = errors.New("extended too soon")
	// ErrState: the reservation or the order has already ended, in another way. It comes as a StateError.
	ErrState = errors.New("it has ended already")
	// ErrExpired: the reservation has expired, and its units are not available any more.
	ErrExpired = errors.New("the reservation has expired")
	// ErrBelowZero: an adjustment would remove more units than are available.
	ErrBelowZero = errors.New("the adjustment removes more than is available")
)

// A Shortage is a line for which not enough is in stock.
type Shortage struct {
	SKU       service.SKU `json:"sku"`
	Requested int64       `json:"requested"`
	Available int64       `json:"available"`
}

// A ShortError names every line for which not enough is in stock. Nothing was sold.
type ShortError struct{ Lines []Shortage }

func (e *ShortError) Error() string {
	first := e.Lines[0]
	return fmt.Sprintf("sold out: %d of %s left, %d requested, and %d more lines that are short",
		first.Available, first.SKU, first.Requested, len(e.Lines)-1)
}

func (e *ShortError) Is(target error) bool { return target == ErrShort || target == service.ErrSoldOut }

// A LimitError says how many units the customer may still have.
type LimitError struct {
	SKU       service.SKU
	Limit     int64
	Remaining int64 // that the customer may still have
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit of %d per customer for %s reached: %d more may be had", e.Limit, e.SKU, e.Remaining)
}

func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// A HoldError says which of the Limits a reservation would exceed, and how much the customer may still reserve.
type HoldError struct {
	Of        string      // OfOpen, OfUnits or OfShare
	SKU       service.SKU // with OfShare
	Limit     int64       // reservations with OfOpen, otherwise units
	Remaining int64
}

func (e *HoldError) Error() string {
	return fmt.Sprintf("%v: limit of %d (%s), %d more may be reserved", ErrHold, e.Limit, e.Of, e.Remaining)
}

func (e *HoldError) Is(target error) bool { return target == ErrHold }

// An EarlyError says after which time the reservation may be extended again.
type EarlyError struct{ Wait time.Duration }

func (e *EarlyError) Error() string { return fmt.Sprintf("%v: again after %v", ErrEarly, e.Wait) }

func (e *EarlyError) Is(target error) bool { return target == ErrEarly }

// A StateError has the state of the reservation or the order.
type StateError struct{ State string }

func (e *StateError) Error() string { return "it is " + e.State + " already" }

func (e *StateError) Is(target error) bool { return target == ErrState }
