package order

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/stock/service"
)

// An Archivable is a ledger from which what is old can be taken away, part by part. See package archive.
//
// A Carried movement stands for all movements of its SKU up to its own number, when these were archived. It adds what
// all of them have added, so the sum of what is left is the stock, as before.
type Archivable interface {
	// Archived returns the last part that was taken away, and what the clock of the store's server says.
	Archived(ctx context.Context) (last Part, now time.Time, err error)
	// Positions returns about limit SKUs of the ledger, from cursor on ("" is the first page), and the cursor of the next
	// page, or "". Those that are made meanwhile may be missing.
	Positions(ctx context.Context, cursor string, limit int) (page []Position, next string, err error)
	// Old returns about limit orders and reservations that nobody has changed since before, and the cursor of the next
	// page, or "". Reservations that are held are not old. Two pages may have the same one.
	Old(ctx context.Context, before time.Time, cursor string, limit int) (page Old, next string, err error)
	// Present returns those of the ids of orders and reservations that the ledger has.
	Present(ctx context.Context, ids []string) ([]string, error)
	// TakeAway removes what t names, in one step, as if nobody else were there: the movements up to that of each Carry,
	// which takes their place, the orders and the reservations. It fails, and changes nothing, with ErrTaken if the
	// last part is not the one before t.Part, and with ErrMoved if the ledger does not have what t names, as it is
	// there. For a part that was taken away already it is nil.
	TakeAway(ctx context.Context, t Taking) error
}

// ErrTaken: another archiver has taken a part away meanwhile.
var ErrTaken = errors.New("another part was archived meanwhile")

// ErrMoved: what is to be archived is not in the ledger as it was read.
var ErrMoved = errors.New("it has changed since it was read")

// A Part is what was archived in one step: a file, or a piece of one.
type Part struct {
	Number       uint64    `json:"part"`               // from 1, without a gap; 0: nothing was archived yet
	Digest       string    `json:"sha256"`             // of its lines, see package archive
	Previous     string    `json:"previous,omitempty"` // the digest of the part before it
	Before       time.Time `json:"before"`             // what is not older than that is in no part so far
	Movements    int       `json:"movements"`
	Orders       int       `json:"orders"`
	Reservations int       `json:"reservations"`
}

// Follows fails with ErrTaken if p is not the part after last. It reports whether p is last itself.
func (p Part) Follows(last Part) (is bool, err error) {
	switch {
	case p.Number == last.Number && p.Digest == last.Digest:
		return true, nil
	case p.Number != last.Number+1 || p.Previous != last.Digest:
		return false, fmt.Errorf("part %d: %w", p.Number, ErrTaken)
	}
	return false, nil
}

// A Position is a SKU of a ledger, as an archiver sees it.
type Position struct {
	Delivered        // how far its movements were delivered
	Fence     uint64 // of the relay which said so; 0: none has
}

// Old is a page of what is old.
type Old struct {
	Orders       []Order
	Reservations []Reservation
}

// A Taking is a part that is to be taken away.
type Taking struct {
	Part Part
	Old
	Carries []Carry
}

// IDs returns those of the orders and of the reservations.
func (t Taking) IDs() (orders, reservations []string) {
	for _, o := range t.Orders {
		orders = append(orders, o.ID)
	}
	for _, r := range t.Reservations {
		reservations = append(reservations, r.ID)
	}
	return orders, reservations
}

// SKUs returns all that t is about, sorted, each once.
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

// A Carry puts a movement in place of all those of its SKU from First to its number, and of the one before First, which
// is a Carried one, if First is not 1.
type Carry struct {
	First uint64
	Movement
}

// Carry adds m to a Carried movement, which then stands for m, too. The zero Movement stands for none.
func (m Movement) Carry(next Movement) Movement {
	return Movement{
		SKU: next.SKU, Number: next.Number, Kind: Carried, At: next.At,
		Received: m.Received + next.Received, Available: m.Available + next.Available,
		Reserved: m.Reserved + next.Reserved, Sold: m.Sold + next.Sold,
	}
}

// An ArchivedError says that there is no such order or reservation any more, or never was one: it may have been
// archived. It matches ErrNotFound.
type ArchivedError struct{ Before time.Time }

func (e *ArchivedError) Error() string {
	return fmt.Sprintf("%v: what was made before %s may have been archived", ErrNotFound, e.Before.Format(time.RFC3339))
}

// Is makes an ArchivedError match ErrArchived and ErrNotFound.
func (e *ArchivedError) Is(target error) bool { return target == ErrArchived || target == ErrNotFound }

// ErrArchived: it comes as an ArchivedError.
var ErrArchived = errors.New("archived")

// GoneFrom returns a Config.Gone for the orders and reservations of a. It costs a read. Nothing is kept of each that
// was archived: its id tells when it was made, see FirstID.
func GoneFrom(a Archivable) func(ctx context.Context, id string) error {
	return func(ctx context.Context, id string) error {
		last, _, err := a.Archived(ctx)
		if err != nil || id >= FirstID(last.Before) {
			return err
		}
		return &ArchivedError{last.Before}
	}
}

// FirstID returns a text that comes before all ids of orders and reservations which are made from t on, by the clocks
// of the instances that make them, and after those that were made before: ids are of version 7, and begin with the
// time.
func FirstID(t time.Time) string {
	ms := max(0, t.UnixMilli())
	return fmt.Sprintf("%08x-%04x", ms>>16, ms&0xffff)
}

// Ended returns when an order was changed last.
func (o Order) Ended() time.Time {
	if o.CanceledAt != nil {
		return *o.CanceledAt
	}
	return o.CreatedAt
}
