package checkout

import (
	"maps"
	"math"
	"slices"
	"sort"
	"time"
)

// The evidence has two clocks: the load generator's in the records, and the store's in movements, orders and
// reservations. Times of the store are compared only with times of the store. Requests and movements are ordered by the
// numbers of the movements, without the store's clock: see timeline. Only then are the two clocks compared, by the
// difference that most movements agree on. A deviation from it is no proof, because a clock may have been set.

const (
	// drift is the largest allowed change of the difference of the two clocks during a run.
	drift = time.Second
	// rounding is the largest difference of two times of one step, because stores round them.
	rounding = time.Millisecond
)

// near reports whether two times of the store may be of one step.
func near(a, b time.Time) bool { return a.Sub(b).Abs() <= rounding }

// A timeline has the stock of one SKU before and after each movement, and the possible times of each movement by the
// clock of the records.
type timeline struct {
	moves     []*Movement
	available []int64
	taken     map[string][]level // by customer, in the order of states
	from      []time.Time        // earliest time: all requests of earlier movements had been sent
	until     []time.Time        // latest time: the reply of a later movement had arrived; zero: unknown
	earlier   int64              // units reserved before the run that have not expired since
}

// A level is the number of units that a customer has from a state on.
type level struct {
	state int
	units int64
}

// states returns the first and the last possible state of the stock between two moments. State 0 precedes all
// movements.
func (t *timeline) states(sent, done time.Time) (first, last int) {
	first = sort.Search(len(t.moves), func(i int) bool { return t.until[i].IsZero() || !t.until[i].Before(sent) })
	last = sort.Search(len(t.moves), func(i int) bool { return t.from[i].After(done) })
	return first, last
}

// short reports whether fewer than n units may have been available at some time between two moments.
func (t *timeline) short(n int64, sent, done time.Time) bool {
	first, last := t.states(sent, done)
	return first <= last && slices.Min(t.available[first:last+1]) < n
}

// most returns the largest number of units that the customer may have had between two moments.
func (t *timeline) most(customer string, sent, done time.Time) (most int64) {
	first, last := t.states(sent, done)
	for _, l := range t.taken[customer] {
		switch {
		case l.state > last:
			return most
		case l.state <= first:
			most = l.units
		default:
			most = max(most, l.units)
		}
	}
	return most
}

// open returns the units in each reservation that the customer may have had open between two moments, by its id.
func (j *judge) open(customer string, sent, done time.Time) map[string]int64 {
	units := make(map[string]int64)
	for _, t := range j.timelines {
		for _, l := range t.taken[customer] {
			i := l.state - 1
			m := t.moves[i]
			begun := m.Reserved > 0 && !t.from[i].After(done)
			if ended := m.Reserved < 0 && !t.until[i].IsZero() && t.until[i].Before(sent); begun || ended {
				units[m.Ref] += m.Reserved
			}
		}
	}
	maps.DeleteFunc(units, func(_ string, n int64) bool { return n <= 0 })
	return units
}

// makers returns the requests that may have caused m. No request causes an expiry.
func (j *judge) makers(m *Movement) (list []*request) {
	if f := j.facts[m.Ref]; f != nil {
		switch m.Kind {
		case "sell", "reserve":
			return f.made
		case "confirm":
			return f.about(OpConfirm)
		case "cancel":
			return f.about(OpRelease)
		case "return":
			return f.about(OpCancel)
		}
		return nil
	}
	for _, q := range j.byKey[m.Reason] {
		if q.ask.Op == OpDeliver {
			list = append(list, q)
		}
	}
	return list
}

// inTime finds the possible times of each movement. Movements are made in the order of their numbers, each after its
// request was sent and before the reply. If that is impossible, the numbers are not in the order of time.
func (j *judge) inTime(t *timeline) {
	t.from, t.until = make([]time.Time, len(t.moves)), make([]time.Time, len(t.moves))
	for i, m := range t.moves {
		for k, q := range j.makers(m) {
			if k == 0 || q.sent.Before(t.from[i]) {
				t.from[i] = q.sent
			}
			if q.done != nil && (t.until[i].IsZero() || q.done.DoneAt.Before(t.until[i])) {
				t.until[i] = q.done.DoneAt
			}
		}
	}
	for i := 1; i < len(t.moves); i++ {
		if t.from[i].Before(t.from[i-1]) {
			t.from[i] = t.from[i-1]
		}
	}
	for i := len(t.moves) - 2; i >= 0; i-- {
		if next := t.until[i+1]; !next.IsZero() && (t.until[i].IsZero() || next.Before(t.until[i])) {
			t.until[i] = next
		}
	}
	for i, m := range t.moves {
		if !t.until[i].IsZero() && t.until[i].Before(t.from[i]) {
			j.fail(CheckLaw, "not-in-time", "sku", m.SKU, "number", m.Number)
			return // the others of this SKU follow from it
		}
	}
}

// A span bounds how far the store's clock is ahead of ours.
type span struct{ least, most time.Duration }

// agreed returns the span that is contained in most of the list, because most times are right. It passes the starts and
// the ends in order, a start before an end of the same time: the spans agree where most have begun and not ended.
func agreed(list []span) (best span, ok bool) {
	starts, ends := make([]time.Duration, len(list)), make([]time.Duration, len(list))
	for i, s := range list {
		starts[i], ends[i] = s.least, s.most
	}
	slices.Sort(starts)
	slices.Sort(ends)
	ended, most := 0, 0
	for begun, start := range starts {
		for ends[ended] < start {
			ended++
		}
		if open := begun + 1 - ended; open > most {
			most, best = open, span{start, ends[ended]}
		}
	}
	return best, most > 0
}

// clocks compares the clock of the store with that of the records.
func (j *judge) clocks() {
	spans := make(map[*Movement]span)
	var bounded []span // from both sides
	for i := range j.e.Books {
		t := j.timelines[j.e.Books[i].Before.SKU]
		for k, m := range t.moves {
			s := j.ahead(t, k)
			spans[m] = s
			if s.most < math.MaxInt64 && !t.until[k].IsZero() && s.least <= s.most {
				bounded = append(bounded, s)
			}
		}
	}
	j.skew, j.measured = agreed(bounded)
	if !j.measured {
		return
	}
	for i := range j.e.Books {
		for _, m := range j.timelines[j.e.Books[i].Before.SKU].moves {
			if s := spans[m]; s.least > j.skew.most+drift || s.most < j.skew.least-drift {
				j.fail(CheckSettled, "clock", "sku", m.SKU, "number", m.Number, "kind", m.Kind, "at", clock(m.At))
				j.measured = false // one difference does not hold for the whole run
			}
		}
	}
	if j.measured {
		j.now = j.e.ReadAt.Add(j.skew.least)
	}
}

// ahead returns how far the store's clock was ahead at the k-th movement: at most as far as its time is after the first
// request that may have caused it, and at least as far as it is after the first proof that it was made.
func (j *judge) ahead(t *timeline, k int) span {
	s, m := span{math.MinInt64, math.MaxInt64}, t.moves[k]
	switch until := t.until[k]; {
	case !until.IsZero():
		s.least = m.At.Sub(until)
	case !j.e.ReadAt.IsZero():
		s.least = m.At.Sub(j.e.ReadAt.Add(lookLimit)) // the movement was read before that
	}
	for i, q := range j.makers(m) {
		if most := m.At.Sub(q.sent); i == 0 || most > s.most {
			s.most = most
		}
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000000") }
