package checkout

import (
	"slices"
	"testing"
)

// A visit is whole if each of its requests was done, and refused if one was. One with a request that had no end is
// neither.
func TestVisitsByWay(t *testing.T) {
	way, other := Ways()[0], Ways()[1]
	requests := make(map[int]*Record)
	for visit, outcomes := range [][]Outcome{
		{Done}, {Done, Done}, {Done, Refused}, {Refused, Unknown}, {Done, Unknown}, {Unknown},
	} {
		for _, outcome := range outcomes {
			requests[len(requests)] = &Record{Visit: visit, Way: way, Outcome: outcome}
		}
	}
	requests[len(requests)] = &Record{Visit: 99, Way: other, Outcome: Done}
	requests[len(requests)] = &Record{Visit: 100, Way: "no way", Outcome: Done}
	got := waysOf(requests)
	at := func(w Way) WayFigures {
		return got[slices.IndexFunc(got, func(f WayFigures) bool { return f.Way == w })]
	}
	if w := at(way); w.Visits != 6 || w.Whole != 2 || w.Refused != 2 {
		t.Errorf("%+v, want 6 visits, 2 whole, 2 refused", w)
	}
	if w := at(other); w.Visits != 1 || w.Whole != 1 || w.Refused != 0 || len(got) != len(Ways()) {
		t.Errorf("%+v, of %d ways", w, len(got))
	}
}
