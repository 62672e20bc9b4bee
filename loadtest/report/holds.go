package report

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"example.com/stock/loadtest"
)

// A hold is the stay of one accepted request in the critical section, in milliseconds since the start of the run. Waits and holds are by the
// instance's own clock; only where they stand relative to those of another computer depends on how well the clocks agree.
type hold struct {
	rec            *loadtest.Record
	asked          float64 // when it began to wait
	from, to       float64
	excludes       bool // no other may be in the same critical section
	together       int  // holds of the same critical section that it met
	partner        *hold
	firstMet, last float64 // from when to when it was not alone
}

// room is a critical section: that of a SKU, or of one segment of it.
type room struct {
	sku     string
	segment int
}

func (h *hold) room() room { return room{h.rec.SKU, h.rec.Segment} }

// A pair is two holds that were in one critical section at once.
type pair struct{ first, second *hold } // by when they came

func (p pair) overlap() float64 { return min(p.first.to, p.second.to) - p.second.from }

// sentence names both.
func (p pair) sentence() string {
	a, b := p.first.rec, p.second.rec
	text := fmt.Sprintf("%s and %s were in the critical section together for %s", party(a), party(b), millis(p.overlap()))
	switch {
	case a.Version == b.Version:
		text += fmt.Sprintf("; both read version %d, so one overwrote the other", a.Version)
	default:
		text += "; they read different versions, so this pair lost nothing"
	}
	return text
}

func party(r *loadtest.Record) string {
	return fmt.Sprintf("order %s (%s, worker %d)", r.OrderID, instance(r.Instance), r.Worker)
}

func instance(name string) string { return cmp.Or(name, "no instance named") }

// A story is what the holds of a run amount to.
type story struct {
	start   time.Time // of the run
	length  float64   // of the run, in milliseconds
	holds   []hold    // by from
	pairs   int       // that overlapped in a room where that must not be
	shown   []pair    // the first of them
	missing int       // accepted, without times
}

// mustExclude reports whether two holds of one room at once are a fault, promised or not. A strategy that locks nothing and still promises no lost
// update decides when it writes (a version, one statement): there many may be at it at once.
func mustExclude(s *loadtest.Strategy, segment int) bool {
	return s.Promise.Exclusive || s.Promise.Scope != loadtest.Cluster || segment > 0
}

// maxPairs is how many pairs are named. All are counted.
const maxPairs = 10

func tell(r *loadtest.Result) *story {
	s := &story{start: r.StartedAt}
	for i := range r.Records {
		if rec := &r.Records[i]; i == 0 || rec.SentAt.Before(s.start) {
			s.start = rec.SentAt
		}
	}
	for i := range r.Records {
		rec := &r.Records[i]
		s.length = max(s.length, s.ms(rec.DoneAt))
		switch {
		case rec.Receipt == nil:
		case rec.AcquiredAt.IsZero() || rec.ReleasedAt.Before(rec.AcquiredAt):
			s.missing++
		default:
			from := s.ms(rec.AcquiredAt)
			s.holds = append(s.holds, hold{
				rec: rec, asked: from - max(rec.WaitedMS, 0), from: from, to: s.ms(rec.ReleasedAt),
				excludes: mustExclude(&r.Strategy, rec.Segment),
			})
		}
	}
	slices.SortFunc(s.holds, func(a, b hold) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.rec.Seq, b.rec.Seq)) })
	s.meet()
	return s
}

func (s *story) ms(t time.Time) float64 { return float64(t.Sub(s.start)) / float64(time.Millisecond) }

// meet finds who was together with whom: one pass in the order of coming, with those who have not left yet.
func (s *story) meet() {
	inside := make(map[room][]*hold)
	for i := range s.holds {
		h := &s.holds[i]
		if !h.excludes {
			continue
		}
		there := slices.DeleteFunc(inside[h.room()], func(o *hold) bool { return o.to <= h.from })
		for _, other := range there {
			p := pair{other, h}
			s.pairs++
			if len(s.shown) < maxPairs {
				s.shown = append(s.shown, p)
			}
			other.met(h, h.from, min(h.to, other.to))
			h.met(other, h.from, min(h.to, other.to))
		}
		inside[h.room()] = append(there, h)
	}
}

// met notes that h was with other. The time from its first to its last company is drawn as one, and a gap between two in it with it.
func (h *hold) met(other *hold, from, to float64) {
	if h.together == 0 {
		h.partner, h.firstMet, h.last = other, from, to
	}
	h.together++
	h.firstMet, h.last = min(h.firstMet, from), max(h.last, to)
}
