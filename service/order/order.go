// Package order is the domain of an order service: carts, reservations, movements of stock, and limits for customers.
//
// Every change is one step of a [Ledger]: the step reads the stock, a pure function decides (rules.go), and the step
// writes the changes, isolated from other steps. The order, the movements of stock, the idempotency key and the event
// are written together or not at all, so nothing needs repair after a crash.
//
// The law holds for each SKU after every step: received = available + reserved + sold.
package order

import (
	"time"

	"example.com/stock/service"
)

// Limits of a client's requests.
const (
	MaxLines    = 100                 // lines of a cart, before and after lines of one SKU are merged
	MaxCustomer = 64                  // bytes of a customer's name; it has the characters of a SKU
	MinTTL      = time.Second         // of a reservation
	MaxTTL      = 24 * time.Hour      // of a reservation, extensions included
	MaxReason   = 200                 // bytes of the reason of an adjustment
	MaxQuantity = service.MaxQuantity // units of a line, after lines of one SKU are merged
)

// A Line asks for units of one SKU.
type Line struct {
	SKU      service.SKU `json:"sku"`
	Quantity int64       `json:"quantity"`
}

// States of an Order.
const (
	Placed   = "placed"
	Canceled = "canceled" // its units were given back
)

// An Order is a customer's order. Its lines are sorted by SKU, with one line for each SKU. All times in this package
// are those of the store's server.
type Order struct {
	ID          string     `json:"order_id"`
	Customer    string     `json:"customer"`
	Lines       []Line     `json:"lines"`
	State       string     `json:"state"`
	Reservation string     `json:"reservation_id,omitempty"` // the confirmed reservation; "": none
	Late        bool       `json:"late,omitempty"`           // the reservation had expired; its units were taken again
	CreatedAt   time.Time  `json:"created_at"`
	CanceledAt  *time.Time `json:"canceled_at,omitempty"`
}

// States of a Reservation. Only Held can change, and Expired can become Confirmed if the payment arrives late and the
// units are still available.
const (
	Held      = "held"
	Confirmed = "confirmed" // it became an order; late, if EndedAt is not before ExpiresAt
	Released  = "canceled"  // the customer canceled it
	Expired   = "expired"   // it expired, and its units are for sale again
)

// A Reservation keeps units for a customer until it expires. Its lines are sorted by SKU, with one line for each SKU.
type Reservation struct {
	ID        string    `json:"reservation_id"`
	Customer  string    `json:"customer"`
	Lines     []Line    `json:"lines"`
	State     string    `json:"state"`
	ExpiresAt time.Time `json:"expires_at"` // from then on it has expired, even before a sweeper ends it
	CreatedAt time.Time `json:"created_at"`
	// ExtendedAt is the time of the last extension that made it expire later; nil: none.
	ExtendedAt *time.Time `json:"extended_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Order      string     `json:"order_id,omitempty"` // the order that it became
}

// A Kind is the reason why stock moved.
type Kind string

// Kinds of movements, with the counters that they change.
const (
	Receive Kind = "set"     // received and available: the stock was counted or set; see [Ledger]
	Adjust  Kind = "adjust"  // received and available: a delivery, or a loss; all: see [Movement.Repairs]
	Sell    Kind = "sell"    // available to sold: an order without a reservation, or a late confirmation
	Reserve Kind = "reserve" // available to reserved
	Confirm Kind = "confirm" // reserved to sold
	Cancel  Kind = "cancel"  // reserved to available: the customer canceled a reservation
	Expire  Kind = "expire"  // reserved to available: a reservation expired
	Return  Kind = "return"  // sold to available: an order was canceled
	Carried Kind = "carried" // all: the sum of the archived movements up to its number; not published
)

// A Movement is a change of the stock of one SKU: a row of the ledger, and the event that is published. It never
// changes; an error is corrected by another movement.
type Movement struct {
	SKU service.SKU `json:"sku"`
	// Number counts the movements of the SKU, from 1, without a gap.
	Number    uint64    `json:"number"`
	Kind      Kind      `json:"kind"`
	Received  int64     `json:"received"` // the change of each counter of the law; received = available+reserved+sold
	Available int64     `json:"available"`
	Reserved  int64     `json:"reserved"`
	Sold      int64     `json:"sold"`
	Ref       string    `json:"ref,omitempty"` // the order or reservation, or the plan of a repair; "": none
	Customer  string    `json:"customer,omitempty"`
	Reason    string    `json:"reason,omitempty"` // given by a person
	At        time.Time `json:"at"`
	// Traceparent is the place in a trace of the request that moved the stock, as in W3C Trace Context; "": the request
	// was not sampled. It is no part of the ledger's law, and not shown to customers.
	Traceparent string `json:"traceparent,omitempty"`
}

// Repairs reports whether m was written by a repair: an adjustment that refers to a plan. It may change all counters.
func (m Movement) Repairs() bool { return m.Kind == Adjust && m.Ref != "" }
