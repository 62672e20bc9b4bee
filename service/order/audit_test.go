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

// An adjustment that refers to a plan settles what is before it, but not what is after it or what changes the sum.
func TestARepairSettlesTheProblemsBeforeIt(t *testing.T) {
	at := func(n uint64, kind Kind, ref string, r, a, v, s int64) Movement {
		return Movement{SKU: "a", Number: n, Kind: kind, Ref: ref, Received: r, Available: a, Reserved: v, Sold: s}
	}
	damaged := []Movement{at(1, Receive, "", 10, 10, 0, 0), at(3, Confirm, "r", 0, 0, -2, 2)}
	repair := at(4, Adjust, "repair-1", 0, -2, 2, 0)
	counters := Level{Received: 10, Available: 8, Sold: 2, Number: 4}
	if a := Audit("a", counters, slices.Values(append(damaged, repair))); len(a.Problems) != 0 || a.Mended != 2 {
		t.Errorf("repaired: %+v", a)
	}
	plain := repair
	plain.Ref = ""
	wrong := repair
	wrong.Available++
	for name, movements := range map[string][]Movement{
		"an adjustment by a clerk": append(damaged, plain), "a repair that does not add up": append(damaged, wrong),
		"a movement lost later": {damaged[0], repair},
		"a gap later":           append(damaged, repair, at(6, Adjust, "", 0, 0, 0, 0)),
	} {
		if a := Audit("a", counters, slices.Values(movements)); len(a.Problems) == 0 {
			t.Errorf("%s: no problem", name)
		}
	}
}
