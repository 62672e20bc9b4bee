package locktest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"example.com/stock/lock"
)

// A Hold is one holding of a key, by a clock that all processes share: from the answer to Acquire to the moment before Release is
// called, or in which the loss was known.
type Hold struct {
	Key      string
	From, To time.Duration
	Fence    lock.Fence
}

// overlaps fails if two holds of one key intersect, or if promised and a later one has no larger fence.
func overlaps(history []Hold, fenced bool) error {
	slices.SortFunc(history, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.From, b.From))
	})
	both, late := 0, 0
	for i := 1; i < len(history); i++ {
		before, next := history[i-1], history[i]
		if before.Key != next.Key {
			continue
		}
		if next.From < before.To {
			both++
			history[i].To = max(next.To, before.To)
		}
		if fenced && next.Fence <= before.Fence {
			late++
		}
	}
	switch {
	case both > 0:
		return fmt.Errorf("%d of %d holds overlap with one before", both, len(history))
	case late > 0:
		return fmt.Errorf("%d of %d holds have no larger fence than the one before", late, len(history))
	}
	return nil
}
