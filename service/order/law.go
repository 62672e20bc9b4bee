package order

import (
	"errors"
	"fmt"

	"example.com/stock/service"
)

// ErrUnbalanced: the books of a SKU break the law. Nothing was written: a person must look. See [Audit].
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

// Apply adds a movement to the level, and fails with ErrUnbalanced if the level then breaks the law. It does not change
// Taken: a level does not know whose it is.
func (l *Level) Apply(m Movement) error {
	l.Number = m.Number
	l.Received += m.Received
	l.Available += m.Available
	l.Reserved += m.Reserved
	l.Sold += m.Sold
	return l.Check()
}

// Tag returns the tag of a level for conditions, such as "0-17". Every movement changes it. It is empty before the
// first movement. The tag of a stock outside of a ledger does not begin with 0, because epochs count from 1.
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

// Counts are the terms of the law for one SKU, after the movement with that number.
type Counts struct {
	SKU       service.SKU `json:"sku"`
	Received  int64       `json:"received"`
	Available int64       `json:"available"`
	Reserved  int64       `json:"reserved"`
	Sold      int64       `json:"sold"`
	Number    uint64      `json:"number"`
}

// Tag is the Tag of the level.
func (c Counts) Tag() string { return Level{Number: c.Number}.Tag() }

// An Entry is a movement that a person made, and what it led to.
type Entry struct {
	Counts
	Movement Movement `json:"movement"`
}
