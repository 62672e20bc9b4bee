package service

import "context"

// A Segment is a part of the stock of one SKU, which is sold from on its own. Segments are numbered from 1.
type Segment struct {
	Number   int
	Quantity int64
	Version  uint64 // grows by one with every write to the segment; 0: it is not there yet
	Fence    uint64 // the largest that a write to it has carried
}

// Segments is the stock of one SKU in parts, all as they were at one moment.
type Segments struct {
	// the whole. Its Quantity is Reserve and what is in Rows; its Version grows with every write to any part
	Stock
	Reserve int64     // units that are in no segment: all of them, when the stock has just been set
	Rows    []Segment // those that are there, by Number; some may be empty
}

// Row is segment number n. One that is not there is empty.
func (s Segments) Row(n int) Segment {
	for _, row := range s.Rows {
		if row.Number == n {
			return row
		}
	}
	return Segment{Number: n}
}

// A Refill moves units of one SKU into one of its segments. None are made or lost by it.
type Refill struct {
	SKU      SKU
	Epoch    uint64
	Strategy string
	Into     Segment   // as it was read
	Reserve  int64     // how many to take from the reserve
	From     []Segment // as they were read: what is taken is all that is in them
}

// A Segmenter is a store that keeps the stock of a SKU in segments. Setting the stock puts all of it into the
// reserve and removes the segments. The whole looks to Read, and to its Inventory, as if it were one.
//
// An Order with a Segment is about that segment: Write and Swap take its Read, Remaining, Version and Fence for the
// segment's.
type Segmenter interface {
	Swapper
	// Segments returns the stock in parts. It locks nothing.
	Segments(ctx context.Context, sku SKU) (Segments, error)
	// Refill does all of g in one step, or nothing: it fails with ErrConflict if a segment has another version than
	// was read, or the reserve fewer units than are wanted, and otherwise as Write does. The strategy guards the
	// stock from then on.
	//
	// Where Write says ErrOutcomeUnknown it says lock.ErrDown: it may have been done, which changes nothing for
	// anybody.
	Refill(ctx context.Context, g Refill) error
}
