package repo

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/stock/service"
)

const (
	// writeWithin is how long after it was made an order may be written, by the clock of the store's server. What is
	// left of KeepOrders then is how far that clock and an instance's may be apart, and how long a server may be at
	// what it has begun.
	writeWithin = KeepOrders / 2
	// maxSettled bounds the ids of a SKU that are remembered as absent: anybody may ask, and each takes some 100 bytes
	// for KeepOrders.
	maxSettled = 100_000
)

var errTooManySettled = fmt.Errorf("%w: %d orders of this SKU are settled already", service.ErrUndecided, maxSettled)

// madeAt is when an order was made, by its id, which the service makes (UUID version 7).
func madeAt(id string) (time.Time, error) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 7 || u.String() != id {
		return time.Time{}, &service.InvalidError{
			Field: "order_id", Reason: "must be one that this service has made: a UUID of version 7, in lower case",
		}
	}
	seconds, nanoseconds := u.Time().UnixTime()
	return time.Unix(seconds, nanoseconds), nil
}

// writtenBy is when o may be written at the latest. An id that is none of the service's cannot be settled; its order's
// own time counts.
func writtenBy(o service.Order) time.Time {
	made, err := madeAt(o.ID)
	if err != nil {
		made = o.CreatedAt
	}
	return made.Add(writeWithin)
}
