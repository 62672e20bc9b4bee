package order

import (
	"fmt"
	"iter"

	"example.com/stock/service"
)

// An Account is what an audit has found of one SKU.
type Account struct {
	Counts             // as the counters have them
	Movements int      `json:"movements"` // that were read
	Problems  []string `json:"problems"`  // empty: the books balance
}

// Audit compares the counters of a SKU with all its movements, which must be in order: the numbers have no gap, the law
// holds after each, and their sum is what the counters say.
func Audit(sku service.SKU, counters Level, movements iter.Seq[Movement]) Account {
	a := Account{Counts: counters.Counts(sku), Problems: []string{}}
	wrong := func(format string, args ...any) {
		if len(a.Problems) < maxProblems {
			a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
		}
	}
	var sum Level
	for m := range movements {
		a.Movements++
		if m.SKU != sku {
			wrong("movement %d is of %s", m.Number, m.SKU)
		}
		if m.Number != sum.Number+1 {
			wrong("after movement %d comes %d", sum.Number, m.Number)
		}
		sum.Number = m.Number
		sum.Received += m.Received
		sum.Available += m.Available
		sum.Reserved += m.Reserved
		sum.Sold += m.Sold
		if err := sum.Check(); err != nil {
			wrong("after movement %d: %v", m.Number, err)
		}
	}
	if err := counters.Check(); err != nil {
		wrong("counters: %v", err)
	}
	if sum.Counts(sku) != a.Counts {
		wrong("the movements add up to received %d, available %d, reserved %d, sold %d, number %d",
			sum.Received, sum.Available, sum.Reserved, sum.Sold, sum.Number)
	}
	return a
}

// maxProblems bounds what is told of one SKU: after the first problem the rest often follows from it.
const maxProblems = 10
