package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/stock/service"
)

// An Archivable is a ledger from which old records can be removed, part by part. See package archive.
//
// A Carried movement replaces the archived movements of its SKU, which are all up to its own number. It adds their
// sum, so the movements in the ledger still add up to the stock.
type Archivable interface {
	// Archived returns the last part that was removed, and the time of the store's server.
	Archived(ctx context.Context) (last Part, now time.Time, err error)
	// Positions returns about limit SKUs of the ledger, beginning at cursor ("": at the first SKU), and the cursor of
	// the next page ("" after the last). It may miss SKUs that are created meanwhile.
	Positions(ctx context.Context, cursor string, limit int) (page []Position, next string, err error)
	// Old returns about limit orders and reservations that have not changed since before, and the cursor of the next
	// page ("" after the last). It leaves out held reservations. A record may be on two pages.
	Old(ctx context.Context, before time.Time, cursor string, limit int) (page Old, next string, err error)
	// Present returns those ids that belong to orders or reservations in the ledger.
	Present(ctx context.Context, ids []string) ([]string, error)
	// TakeAway removes the records of t in one isolated step: it replaces movements by the Carry of their SKU, and
	// removes the orders and the reservations. If t.Part is not the part after the last removed part, it changes
	// nothing and fails with ErrTaken. If a record in the ledger differs from the one in t, it changes nothing and
	// fails with ErrMoved. If t.Part was already removed, it returns nil.
	TakeAway(ctx context.Context, t Taking) error
}

// ErrTaken: another archiver has removed a part meanwhile.
var ErrTaken = errors.New("another part was archived meanwhile")

// ErrMoved: a record to be archived has changed in the ledger since it was read.
var ErrMoved = errors.New("it has changed since it was read")

// A Part describes the records that were archived in one step: a file, or a piece of one.
type Part struct {
	Number       uint64    `json:"part"`               // from 1, without a gap; 0: nothing was archived yet
	Digest       string    `json:"sha256"`             // digest of the lines of its file, see package archive
	Previous     string    `json:"previous,omitempty"` // the digest of the part before it
	Before       time.Time `json:"before"`             // all records of this part and of earlier parts are older
	Movements    int       `json:"movements"`
	Orders       int       `json:"orders"`
	Reservations int       `json:"reservations"`
}

// Follows returns true if p is last, and false if p is the part after last. Otherwise it fails with ErrTaken.
func (p Part) Follows(last Part) (is bool, err error) {
	switch {
	case p.Number == last.Number && p.Digest == last.Digest:
		return true, nil
	case p.Number != last.Number+1 || p.Previous != last.Digest:
		return false, fmt.Errorf("part %d: %w", p.Number, ErrTaken)
	}
	return false, nil
}

// A Position is the last delivered number of a SKU, and the fence of the relay that recorded it.
type Position struct {
	Delivered        // the last number that was delivered
	Fence     uint64 // fence of the relay that recorded it; 0: none has
}

// Old is a page of old orders and reservations.
type Old struct {
	Orders       []Order
	Reservations []Reservation
}

// A Taking is a part with the records to be removed.
type Taking struct {
	Part Part
	Old
	Carries []Carry
}

// IDs returns the ids of the orders and of the reservations.
func (t Taking) IDs() (orders, reservations []string) {
	for _, o := range t.Orders {
		orders = append(orders, o.ID)
	}
	for _, r := range t.Reservations {
		reservations = append(reservations, r.ID)
	}
	return orders, reservations
}

// SKUs returns the SKUs of all records of t, sorted, each once.
func (t Taking) SKUs() (skus []service.SKU) {
	for _, c := range t.Carries {
		skus = append(skus, c.SKU)
	}
	for _, o := range t.Orders {
		skus = append(skus, skusOf(o.Lines)...)
	}
	for _, r := range t.Reservations {
		skus = append(skus, skusOf(r.Lines)...)
	}
	slices.Sort(skus)
	return slices.Compact(skus)
}

// A Carry is a Carried movement that replaces the movements of its SKU from First to its own number. If First is not 1,
// it also replaces the previous Carried movement.
type Carry struct {
	First uint64
	Movement
}

// Carry returns the Carried movement that replaces m and next. m is itself a Carried movement, or zero.
func (m Movement) Carry(next Movement) Movement {
	return Movement{
		SKU: next.SKU, Number: next.Number, Kind: Carried, At: next.At,
		Received: m.Received + next.Received, Available: m.Available + next.Available,
		Reserved: m.Reserved + next.Reserved, Sold: m.Sold + next.Sold,
	}
}

// GoneFrom returns a function for Config.Gone that looks at the archived parts of a. Each call of the function takes
// one read. The ledger keeps no list of what was archived, so GoneFrom compares the time in the id with the time of the
// last part: see FirstID.
func GoneFrom(a Archivable) func(ctx context.Context, id string) error {
	return func(ctx context.Context, id string) error {
		last, _, err := a.Archived(ctx)
		if err != nil || id >= FirstID(last.Before) {
			return err
		}
		return &ArchivedError{last.Before}
	}
}

// FirstID returns a text that sorts after the ids of orders and reservations made before t, and before all later ids.
// Ids are UUIDs of version 7, which begin with the time by the clock of the instance that made them.
func FirstID(t time.Time) string {
	ms := max(0, t.UnixMilli())
	return fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
}

// Ended returns the time of the last change of an order.
func (o Order) Ended() time.Time {
	if o.CanceledAt != nil {
		return *o.CanceledAt
	}
	return o.CreatedAt
}
