package service

import (
	"maps"
	"slices"
	"time"
)

// A Line asks for units of one SKU.
type Line struct {
	SKU      string
	Quantity int64
}

// States of an order.
const (
	Placed   = "placed"
	Canceled = "canceled" // also of a reservation
)

// An Order is a customer's order. All times are those of the database's clock.
type Order struct {
	ID            string
	Customer      string
	State         string
	Lines         []Line `gorm:"-"` // rows of their own
	ReservationID string // "": none
	Late          bool   // the reservation had expired, and its units were taken again
	CreatedAt     time.Time
	CanceledAt    *time.Time
}

// MaxTTL is the longest time from when a reservation is made until it expires, however often it is extended.
const MaxTTL = 24 * time.Hour

// States of a reservation. Only Held can change, and Expired can become Confirmed, late.
const (
	Held      = "held"
	Confirmed = "confirmed"
	Expired   = "expired"
)

// A Reservation keeps units for a customer until it expires.
type Reservation struct {
	ID        string
	Customer  string
	State     string
	Lines     []Line `gorm:"-"` // rows of their own
	OrderID   string // the order that it became; "": none
	CreatedAt time.Time
	ExpiresAt time.Time // from then on it has expired, even before a sweeper ends it

	ExtendedAt *time.Time // when ExpiresAt was last changed; nil: never
	EndedAt    *time.Time
}

// StateAt returns the state at now. A held reservation has expired from ExpiresAt on, swept or not.
func (r Reservation) StateAt(now time.Time) string {
	if r.State == Held && !now.Before(r.ExpiresAt) {
		return Expired
	}
	return r.State
}

// Cart returns the lines sorted by SKU, with one line for each SKU.
func Cart(lines []Line) []Line {
	bySKU := map[string]Line{}
	for _, l := range lines {
		l.Quantity += bySKU[l.SKU].Quantity
		bySKU[l.SKU] = l
	}
	cart := make([]Line, 0, len(bySKU))
	for _, sku := range slices.Sorted(maps.Keys(bySKU)) {
		cart = append(cart, bySKU[sku])
	}
	return cart
}

// SKUs returns the SKUs of the lines.
func SKUs(lines []Line) []string {
	skus := make([]string, len(lines))
	for i, l := range lines {
		skus[i] = l.SKU
	}
	return skus
}
