package stock

import (
	"time"

	"github.com/google/uuid"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// KeepOrders is how long the orders of an ended epoch are kept for examination. Redis counts from the end of the
// epoch. MySQL counts from each order, and removes old ones when the stock is set again. The orders of the current
// epoch do not expire.
const KeepOrders = 24 * time.Hour

const (
	// writeWithin is the age, by the clock of the store's server, up to which an order may be written. The rest of
	// KeepOrders is a margin for differences between clocks and for writes under way.
	writeWithin = KeepOrders / 2
)

// checkRefill refuses a refill that would create or lose units.
func checkRefill(r service.Refill) error {
	seen := map[int]bool{0: true, r.Into.Number: true}
	for _, row := range r.From {
		if row.Number < 0 || row.Version == 0 || seen[row.Number] {
			return service.Invalid("segment", "segments")
		}
		seen[row.Number] = true
	}
	if r.Into.Number < 1 {
		return service.Invalid("segment", "least", "least", 1)
	}
	return repo.CheckQuantity("reserve", r.Reserve)
}

// checkOrder refuses an order that would increase the stock or leave a negative quantity.
func checkOrder(o service.Order) error {
	if o.Quantity < 1 || o.Quantity > service.MaxQuantity {
		return service.Invalid("quantity", "from-to", "least", 1, "most", service.MaxQuantity)
	}
	return repo.CheckQuantity("remaining", o.Remaining)
}

// checkBatch refuses a batch with several SKUs, or with segments. An error in a single order does not fail the batch.
func checkBatch(orders []service.Order) error {
	for _, o := range orders {
		switch {
		case o.SKU != orders[0].SKU:
			return service.Invalid("sku", "batch-sku")
		case o.Segment != 0:
			return service.Invalid("segment", "batch-segment")
		}
	}
	return nil
}

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
