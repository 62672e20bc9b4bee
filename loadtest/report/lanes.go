package report

import (
	"cmp"
	"slices"

	"example.com/stock/loadtest"
)

// A lane is one instance as one worker saw it: what is drawn in it never overlaps itself, unless a worker's request was sent on by a proxy.
type lane struct {
	instance string
	worker   int
}

// A timeline is what of a story is drawn.
type timeline struct {
	*story
	from, to  float64 // in milliseconds since the start of the run
	bars      []bar
	lanes     []lane
	lanesLeft int // lanes with holds in this time that are not drawn
	total     int // holds of the run
	inWindow  int // holds in this time
	overview  []bucket
	strategy  *loadtest.Strategy
	HasWaits  bool
}

// A bar is a hold in its lane.
type bar struct {
	*hold
	lane int
}

// A bucket is a stretch of the run: how many holds began in it, and how many of those were not alone.
type bucket struct{ holds, met int }

// limits bound what is drawn: more could not be told apart, and would make a page slow to open.
type limits struct{ holds, lanes int }

const buckets = 200

// lay chooses what to draw: all of a short run; of a longer one a stretch with so many holds, where the first two overlap, or else from the start.
func lay(r *loadtest.Result, most limits) *timeline {
	s := tell(r)
	t := &timeline{story: s, total: len(s.holds), from: 0, to: s.length, strategy: &r.Strategy}
	window := s.holds
	if len(window) > most.holds {
		first := max(slices.IndexFunc(window, func(h hold) bool { return h.together > 0 }), 0)
		first = min(max(first-most.holds/10, 0), len(window)-most.holds)
		window = window[first : first+most.holds]
		t.from, t.to = window[0].from, window[0].to
		for i := range window {
			t.to = max(t.to, window[i].to)
		}
		t.overview = s.overview()
	}
	// Clocks of instances may be a little before the start of the run by ours.
	for i := range window {
		t.from = min(t.from, max(window[i].asked, t.from-100, window[i].from-100))
		t.to = max(t.to, window[i].to)
	}
	t.inWindow = len(window)
	t.fill(window, most.lanes)
	return t
}

// fill puts the holds into lanes, by instance and worker. Of too many lanes those with the most company stay, then those with the most holds.
func (t *timeline) fill(window []hold, most int) {
	type load struct {
		lane
		met, holds int
	}
	byLane := make(map[lane]*load)
	for i := range window {
		l := lane{window[i].rec.Instance, window[i].rec.Worker}
		if byLane[l] == nil {
			byLane[l] = &load{lane: l}
		}
		byLane[l].holds++
		byLane[l].met += window[i].together
	}
	list := make([]*load, 0, len(byLane))
	for _, l := range byLane {
		list = append(list, l)
	}
	byName := func(a, b *load) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.worker, b.worker))
	}
	slices.SortFunc(list, func(a, b *load) int {
		return cmp.Or(cmp.Compare(min(b.met, 1), min(a.met, 1)), cmp.Compare(b.holds, a.holds), byName(a, b))
	})
	if len(list) > most {
		t.lanesLeft = len(list) - most
		list = list[:most]
	}
	slices.SortFunc(list, byName)
	at := make(map[lane]int, len(list))
	for i, l := range list {
		at[l.lane] = i
		t.lanes = append(t.lanes, l.lane)
	}
	for i := range window {
		h := &window[i]
		n, drawn := at[lane{h.rec.Instance, h.rec.Worker}]
		if !drawn {
			continue
		}
		t.bars = append(t.bars, bar{h, n})
		t.HasWaits = t.HasWaits || h.from > h.asked
	}
}

// overview says for each of so many stretches of the run how crowded it was.
func (s *story) overview() []bucket {
	list := make([]bucket, buckets)
	at := func(ms float64) *bucket {
		return &list[min(max(int(ms/max(s.length, 1e-9)*buckets), 0), buckets-1)]
	}
	for i := range s.holds {
		h := &s.holds[i]
		b := at(h.from)
		b.holds++
		b.met += min(h.together, 1)
	}
	return list
}
