package stock

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/stock/service"
)

// KeepOrders is how long the orders of an ended epoch are kept for examination. Redis counts from the end of the
// epoch. MySQL counts from each order, and removes old ones when the stock is set again. The orders of the current
// epoch do not expire.
const KeepOrders = 24 * time.Hour

// writeWithin is the age, by the clock of the store's server, up to which an order may be written. The rest of
// KeepOrders is a margin for differences between clocks and for writes under way.
const writeWithin = KeepOrders / 2

// madeAt returns the time at which an order was made, which is part of its id, a UUID of version 7.
func madeAt(id string) (time.Time, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return time.Time{}, service.Invalid("order_id", "order-id")
	}
	seconds, nanoseconds := u.Time().UnixTime()
	return time.Unix(seconds, nanoseconds), nil
}

// writtenBy returns the time until which o may be written. If the id is not of version 7, the order cannot be settled,
// and the limit is derived from CreatedAt.
func writtenBy(o service.Order) time.Time {
	made, err := madeAt(o.ID)
	if err != nil {
		made = o.CreatedAt
	}
	return made.Add(writeWithin)
}

// maxSettled is how many ids of a SKU a store remembers as absent. It is limited because any client may settle an id,
// and each takes some 100 bytes for KeepOrders.
const maxSettled = 100_000

var errTooManySettled = fmt.Errorf("%w: %d orders of this SKU are settled already", service.ErrUndecided, maxSettled)

func unknownSKU(sku service.SKU) error { return fmt.Errorf("%w %q", service.ErrUnknownSKU, sku) }

// checkFence returns an error if fence is smaller than seen, the largest fence of the writes so far. A fence of 0
// means none, and is not checked.
func checkFence(fence, seen uint64) error {
	if fence != 0 && fence < seen {
		return staleFence(seen)
	}
	return nil
}

// staleFence returns the error for a fence that is smaller than seen.
func staleFence(seen any) error {
	return fmt.Errorf("%w (it had fence %v)", service.ErrStaleFence, seen)
}
