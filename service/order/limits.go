package order

import (
	"time"

	"example.com/stock/service"
)

// Limits restrict what customers may take off sale by reservations. A field that is zero is no limit.
//
// Open and Units hold for each customer, so they do not stop a person with many names. Share does: it keeps a part of
// every SKU for orders, however many customers reserve the rest.
type Limits struct {
	Open  int64 // most open reservations of one customer
	Units int64 // most units in the open reservations of one customer, of all SKUs together
	// Share is the most units of a SKU that may be reserved at a time, in percent of those that are not sold. At least
	// one unit may be reserved.
	Share       int64
	ExtendEvery time.Duration // shortest time between two extensions of one reservation
}

// Holding has the totals of a customer's open reservations. A reservation that has expired is open until a sweeper
// ends it, because its units are not for sale before.
type Holding struct {
	Open  int64
	Units int64
}

// counts reports whether a step that reserves needs the customer's Holding.
func (l Limits) counts() bool { return l.Open > 0 || l.Units > 0 }

// holder returns the About.Holder of a step that reserves for a customer.
func (l Limits) holder(customer string) string {
	if l.counts() {
		return customer
	}
	return ""
}

// Values of HoldError.Of.
const (
	OfOpen  = "open"
	OfUnits = "units"
	OfShare = "share"
)

// mayHold fails if a customer who has h would exceed a limit by reserving the lines.
func (l Limits) mayHold(h Holding, lines []Line) error {
	if l.Open > 0 && h.Open >= l.Open {
		return &HoldError{Of: OfOpen, Limit: l.Open}
	}
	if units := Units(lines); l.Units > 0 && h.Units+units > l.Units {
		return &HoldError{Of: OfUnits, Limit: l.Units, Remaining: max(0, l.Units-h.Units)}
	}
	return nil
}

// leaves fails if less than the share of orders would be left of a SKU. It does not ask who has reserved the others.
func (l Limits) leaves(stock map[service.SKU]Level, lines []Line) error {
	if l.Share <= 0 {
		return nil
	}
	for _, line := range lines {
		level := stock[line.SKU]
		// The product of a stock, at most MaxStock, and 100 fits in an int64.
		most := max(1, (level.Available+level.Reserved)*l.Share/100)
		if level.Reserved+line.Quantity > most {
			return &HoldError{
				Of: OfShare, SKU: line.SKU, Limit: most, Remaining: max(0, most-level.Reserved),
			}
		}
	}
	return nil
}

// mayExtend fails if r was extended too short a time before now.
func (l Limits) mayExtend(r Reservation, now time.Time) error {
	if l.ExtendEvery <= 0 || r.ExtendedAt == nil {
		return nil
	}
	if wait := r.ExtendedAt.Add(l.ExtendEvery).Sub(now); wait > 0 {
		return &EarlyError{wait}
	}
	return nil
}

// Units returns the units of all lines together.
func Units(lines []Line) (n int64) {
	for _, l := range lines {
		n += l.Quantity
	}
	return n
}
