package order

import (
	"fmt"
	"iter"

	"example.com/stock/service"
)

// An Account is the result of the audit of one SKU.
type Account struct {
	Counts                // the counters
	Movements int         `json:"movements"` // the number of movements that were read
	Problems  []Imbalance `json:"problems"`  // empty: the books balance
	// Mended is the number of problems before a movement that repaired the books. They are not in Problems.
	Mended int   `json:"mended,omitempty"`
	Sum    Level `json:"-"` // what the movements add up to
}

// An Imbalance is one error in the books of a SKU. It is encoded in JSON as a sentence.
type Imbalance struct {
	Kind   string // one of the kinds below
	Number uint64 // of the movement, if the error is about one
	Next   uint64 // of the movement after a gap
	Other  service.SKU
	Level  Level // the wrong level
}

// The kinds of imbalance.
const (
	OtherSKU  = "other-sku" // Number is a movement of Other
	Gap       = "gap"       // after Number comes Next
	Law       = "law"       // after Number the level is Level, which breaks the law
	CounterOf = "counters"  // the counters are Level, which breaks the law
	SumOf     = "sum"       // the movements add up to Level, and the counters differ
)

func (i Imbalance) String() string {
	level := fmt.Sprintf("received %d, available %d, reserved %d, sold %d",
		i.Level.Received, i.Level.Available, i.Level.Reserved, i.Level.Sold)
	switch i.Kind {
	case OtherSKU:
		return fmt.Sprintf("movement %d is of %s", i.Number, i.Other)
	case Gap:
		return fmt.Sprintf("after movement %d comes %d", i.Number, i.Next)
	case Law:
		return fmt.Sprintf("after movement %d: %v: %s", i.Number, ErrUnbalanced, level)
	case CounterOf:
		return fmt.Sprintf("counters: %v: %s", ErrUnbalanced, level)
	}
	return fmt.Sprintf("the movements add up to %s, number %d", level, i.Level.Number)
}

// MarshalText returns i as a sentence.
func (i Imbalance) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// Audit compares the counters of a SKU with all its movements, which must be in order. It checks that the numbers have
// no gap, that the law holds after each movement, and that the movements add up to the counters. A Carried movement
// replaces the archived ones. A movement that repairs the books settles the problems before it, because its sum was
// made right; a later error in the movements before it changes the sum, and is found by that.
func Audit(sku service.SKU, counters Level, movements iter.Seq[Movement]) Account {
	a := Account{Counts: counters.Counts(sku), Problems: []Imbalance{}}
	wrong := func(i Imbalance) {
		if len(a.Problems) < maxProblems {
			a.Problems = append(a.Problems, i)
		}
	}
	var sum Level
	for m := range movements {
		a.Movements++
		if m.SKU != sku {
			wrong(Imbalance{Kind: OtherSKU, Number: m.Number, Other: m.SKU})
		}
		if m.Kind == Carried && m.Number > sum.Number { // it replaces all movements before it, read or not
			sum = Level{Number: m.Number - 1}
		}
		if m.Number != sum.Number+1 {
			wrong(Imbalance{Kind: Gap, Number: sum.Number, Next: m.Number})
		}
		if sum.Apply(m) != nil {
			wrong(Imbalance{Kind: Law, Number: m.Number, Level: sum})
		} else if m.Repairs() {
			a.Mended += len(a.Problems)
			a.Problems = []Imbalance{}
		}
	}
	if counters.Check() != nil {
		wrong(Imbalance{Kind: CounterOf, Level: counters})
	}
	if a.Sum = sum; sum.Counts(sku) != a.Counts {
		wrong(Imbalance{Kind: SumOf, Level: sum})
	}
	return a
}

// maxProblems limits the reported problems of one SKU, because the first problem often causes the later ones.
const maxProblems = 10
