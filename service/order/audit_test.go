package order

import (
	"slices"
	"testing"
)

func TestAuditFindsWhatDoesNotBalance(t *testing.T) {
	at := func(n uint64, r, a, v, s int64) Movement {
		return Movement{SKU: "a", Number: n, Received: r, Available: a, Reserved: v, Sold: s}
	}
	good := []Movement{at(1, 10, 10, 0, 0), at(2, 0, -2, 2, 0), at(3, 0, 0, -2, 2)}
	counters := Level{Received: 10, Available: 8, Sold: 2, Number: 3}
	if a := Audit("a", counters, slices.Values(good)); len(a.Problems) != 0 {
		t.Fatal(a.Problems)
	}
	for name, bad := range map[string]struct {
		counters  Level
		movements []Movement
	}{
		"a gap":        {counters, []Movement{good[0], good[2]}},
		"one missing":  {counters, good[:2]},
		"twice":        {counters, []Movement{good[0], good[1], good[1], good[2]}},
		"the law":      {counters, []Movement{good[0], at(2, 0, -2, 0, 0), at(3, 0, 0, 0, 2)}},
		"below zero":   {counters, []Movement{at(1, 10, 10, 0, 0), at(2, 0, 2, -2, 0), at(3, 0, -4, 2, 2)}},
		"the counters": {Level{Received: 10, Available: 9, Sold: 1, Number: 3}, good},
		"the number":   {Level{Received: 10, Available: 8, Sold: 2, Number: 4}, good},
		"another SKU":  {counters, []Movement{good[0], {SKU: "b", Number: 2, Available: -2, Reserved: 2}, good[2]}},
	} {
		if a := Audit("a", bad.counters, slices.Values(bad.movements)); len(a.Problems) == 0 {
			t.Errorf("%s: no problem", name)
		}
	}
}
