package service

// A Segment is a part of the stock of one SKU with its own lock. Segments are numbered from 1.
type Segment struct {
	Number   int
	Quantity int64
	Version  uint64 // grows by one with every write to the segment; 0: it does not exist yet
	Fence    uint64 // the largest fence that a write to it has carried
}

// Segments is the stock of one SKU in parts, all read at one moment.
type Segments struct {
	// Stock is the whole: Quantity is the sum of Reserve and Rows, and Version grows with every write to any part.
	Stock
	Reserve int64     // units in no segment: all of them after the stock was set
	Rows    []Segment // the segments that exist, by Number; some may be empty
}

// Row returns segment number n, which is empty if it does not exist.
func (s Segments) Row(n int) Segment {
	for _, row := range s.Rows {
		if row.Number == n {
			return row
		}
	}
	return Segment{Number: n}
}

// A Refill moves units of one SKU into one of its segments.
type Refill struct {
	SKU      SKU
	Epoch    uint64
	Strategy string
	Into     Segment   // as it was read
	Reserve  int64     // units to take from the reserve
	From     []Segment // as they were read; all their units are taken
}
