package order

import (
	"context"
	"time"

	"example.com/stock/service"
)

// An Outbox is the ledger as a queue of events: the movements of each SKU in order of their numbers, and how far they
// were delivered. One relay at a time reads it, under a lock with a fence.
type Outbox interface {
	// Behind returns up to limit SKUs, in order, after the given one ("": from the first), of which movements are to be
	// delivered, with the number of the last one that was.
	Behind(ctx context.Context, after service.SKU, limit int) ([]Delivered, error)
	// Delivered records that the movements of d.SKU up to d.Number were delivered. It fails with service.ErrStaleFence
	// if a later holder of the relay's lock has recorded one for this SKU, and never goes back.
	Delivered(ctx context.Context, d Delivered, fence uint64) error
	// Now returns what the clock of the store's server says, by which movements have their times.
	Now(ctx context.Context) (time.Time, error)
}

// Delivered says how far the movements of a SKU were delivered.
type Delivered struct {
	SKU    service.SKU
	Number uint64 // of the last movement that was delivered; 0: none yet
}
