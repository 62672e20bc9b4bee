package order

import (
	"errors"
	"fmt"

	"example.com/stock/service"
)

// ErrUnbalanced: the books of a SKU break the law. Nothing was written. A person must find the error; see [Audit].
var ErrUnbalanced = errors.New("the books do not balance")

// Check fails with ErrUnbalanced if a level breaks the law: received = available + reserved + sold, none below zero.
func (l Level) Check() error {
	if l.Received != l.Available+l.Reserved+l.Sold ||
		min(l.Received, l.Available, l.Reserved, l.Sold) < 0 {
		return fmt.Errorf("%w: received %d, available %d, reserved %d, sold %d",
			ErrUnbalanced, l.Received, l.Available, l.Reserved, l.Sold)
	}
	return nil
}

// Apply adds a movement to the level. It fails with ErrUnbalanced if the result breaks the law. It does not change
// Taken, because a Level does not contain the customer.
func (l *Level) Apply(m Movement) error {
	l.Number = m.Number
	l.Received += m.Received
	l.Available += m.Available
	l.Reserved += m.Reserved
	l.Sold += m.Sold
	return l.Check()
}

// Tag returns the tag of a level for conditions, such as "0-17". Every movement changes it. It is "" before the first
// movement. The 0 distinguishes it from tags of stock outside a ledger, whose epochs are larger.
func (l Level) Tag() string {
	if l.Number == 0 {
		return ""
	}
	return service.Tag(0, l.Number)
}

// Counts returns the counters that are public.
func (l Level) Counts(sku service.SKU) Counts {
	return Counts{sku, l.Received, l.Available, l.Reserved, l.Sold, l.Number}
}

// Counts are the public counters of one SKU, after the movement with that number.
type Counts struct {
	SKU       service.SKU `json:"sku"`
	Received  int64       `json:"received"`
	Available int64       `json:"available"`
	Reserved  int64       `json:"reserved"`
	Sold      int64       `json:"sold"`
	Number    uint64      `json:"number"`
}

// Tag returns the tag of the level; see [Level.Tag].
func (c Counts) Tag() string { return Level{Number: c.Number}.Tag() }

// An Entry is a movement made by a person, and the counters after it.
type Entry struct {
	Counts
	Movement Movement `json:"movement"`
}
