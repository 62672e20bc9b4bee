package stock

import (
	"time"

	"github.com/google/uuid"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// KeepOrders is how long the orders of an epoch that is over are kept: long enough to look into what happened. Redis
// counts from the end of the epoch. MySQL counts from each order, and removes old ones when the stock is set again. The
// orders of the current epoch do not expire.
const KeepOrders = 24 * time.Hour

const (
	// writeWithin is how long after it was made an order may be written, by the clock of the store's server. The rest
	// of KeepOrders allows for the difference between that clock and an instance's, and for the time that a server
	// takes to finish what it has begun.
	writeWithin = KeepOrders / 2
)

// checkRefill refuses a refill that would make or lose units.
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

// checkOrder refuses an order that would put stock back, or leave less than none.
func checkOrder(o service.Order) error {
	if o.Quantity < 1 || o.Quantity > service.MaxQuantity {
		return service.Invalid("quantity", "from-to", "least", 1, "most", service.MaxQuantity)
	}
	return repo.CheckQuantity("remaining", o.Remaining)
}

// checkBatch refuses a batch that is not of one SKU. What is wrong with a single order is for that order.
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

// madeAt returns the time at which an order was made. It is part of the id, a UUID of version 7 that the service made.
func madeAt(id string) (time.Time, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return time.Time{}, service.Invalid("order_id", "order-id")
	}
	seconds, nanoseconds := u.Time().UnixTime()
	return time.Unix(seconds, nanoseconds), nil
}

// writtenBy returns the time until which o may be written. An id that the service did not make cannot be settled; then
// the order's own time counts.
func writtenBy(o service.Order) time.Time {
	made, err := madeAt(o.ID)
	if err != nil {
		made = o.CreatedAt
	}
	return made.Add(writeWithin)
}
