// Package service has the types of the order service and its rules, which are pure functions. It imports the standard
// library only.
//
// The types are also the rows of the database: a field added here is a column of the same name in snake case. The test
// TestEveryColumnIsStored fails until a migration of package repo adds it.
package service

import (
	"fmt"
	"time"
)

// Stock has the counters of a SKU. The law: Received = Available + Reserved + Sold, and none is below zero.
type Stock struct {
	SKU       string `gorm:"primaryKey"`
	Received  int64
	Available int64
	Reserved  int64
	Sold      int64
	Number    int64 // of the last movement

	PerCustomer int64 // what one customer may have, reserved and sold; 0: no limit
}

// A Kind is the reason why stock moved.
type Kind string

const (
	Set     Kind = "set"     // received and available: the stock was counted
	Adjust  Kind = "adjust"  // received and available: a delivery, or a loss
	Sell    Kind = "sell"    // available to sold
	Hold    Kind = "reserve" // available to reserved
	Confirm Kind = "confirm" // reserved to sold
	Cancel  Kind = "cancel"  // reserved to available: the customer canceled a reservation
	Expire  Kind = "expire"  // reserved to available: a reservation expired
	Return  Kind = "return"  // sold to available: an order was canceled
)

// A Movement is a change of the stock of one SKU. It is also the event that is published. It never changes.
type Movement struct {
	SKU       string    `json:"sku" gorm:"primaryKey"`
	Number    int64     `json:"number" gorm:"primaryKey"` // counts the movements of the SKU, from 1, without a gap
	Kind      Kind      `json:"kind"`
	Received  int64     `json:"received"` // the change of each counter
	Available int64     `json:"available"`
	Reserved  int64     `json:"reserved"`
	Sold      int64     `json:"sold"`
	Ref       string    `json:"ref,omitempty"` // the order or the reservation
	Customer  string    `json:"customer,omitempty"`
	Reason    string    `json:"reason,omitempty"` // given by a person
	At        time.Time `json:"at"`
}

// changes returns what a movement of this kind adds to each counter.
func (k Kind) changes(units int64) (received, available, reserved, sold int64) {
	switch k {
	case Set, Adjust:
		return units, units, 0, 0
	case Sell:
		return 0, -units, 0, units
	case Hold:
		return 0, -units, units, 0
	case Confirm:
		return 0, 0, -units, units
	case Cancel, Expire:
		return 0, units, -units, 0
	case Return:
		return 0, units, 0, -units
	}
	return 0, 0, 0, 0
}

// Apply adds a movement. It fails with ErrUnbalanced if the result breaks the law.
func (s *Stock) Apply(m Movement) error {
	s.Number = m.Number
	s.Received += m.Received
	s.Available += m.Available
	s.Reserved += m.Reserved
	s.Sold += m.Sold
	if s.Received != s.Available+s.Reserved+s.Sold || min(s.Available, s.Reserved, s.Sold) < 0 {
		return fmt.Errorf("%w: %+v", ErrUnbalanced, *s)
	}
	return nil
}
