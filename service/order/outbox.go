package order

import (
	"context"
	"time"

	"example.com/stock/service"
)

// An Outbox is the ledger as a queue of events: the movements of each SKU in the order of their numbers, and the last
// delivered number. One relay at a time reads it, under a lock with a fence.
type Outbox interface {
	// Behind returns up to limit SKUs that have movements to deliver, each with its last delivered number. The SKUs are
	// sorted, and begin after the given one ("": with the first).
	Behind(ctx context.Context, after service.SKU, limit int) ([]Delivered, error)
	// Delivered records that the movements of d.SKU up to d.Number were delivered. The recorded number never
	// decreases. It fails with service.ErrStaleFence if a later holder of the relay's lock has recorded a number for
	// the SKU.
	Delivered(ctx context.Context, d Delivered, fence uint64) error
	// Now returns the time of the store's server, which is the clock of the movements.
	Now(ctx context.Context) (time.Time, error)
}

// Delivered is the last delivered number of a SKU.
type Delivered struct {
	SKU    service.SKU
	Number uint64 // number of the last delivered movement; 0: none yet
}
