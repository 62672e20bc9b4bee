package report

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// Pixels of the picture of the lanes.
const (
	laneHeight = 13
	barHeight  = 9
	groupGap   = 9 // between the lanes of two instances
	axisHeight = 26
	labelWidth = 92
)

// gantt draws the lanes as two pictures side by side: the names, and the bars. Places along the time axis are
// percentages, so that the browser stretches the bars but not text and heights.
func (t *timeline) gantt() (names, bars string) {
	var n, b strings.Builder
	height := t.height()
	fmt.Fprintf(&n, `<svg class="names" width="%d" height="%d" aria-hidden="true">`, labelWidth, height)
	fmt.Fprintf(&b, `<svg class="bars" width="100%%" height="%d" role="img" aria-label="%s">`, height,
		html.EscapeString(t.caption()))
	for i, l := range t.lanes {
		y := t.y(i)
		if i == 0 || t.lanes[i-1].instance != l.instance {
			fmt.Fprintf(&n, `<text class="group" x="0" y="%d">%s</text>`, y+barHeight-1,
				html.EscapeString(t.short(l.instance)))
			fmt.Fprintf(&b, `<line class="rule" x1="0" x2="100%%" y1="%d" y2="%d"/>`, y-groupGap/2, y-groupGap/2)
		}
		fmt.Fprintf(&n, `<text class="lane" x="%d" y="%d">w%d</text>`, labelWidth-4, y+barHeight-1, l.worker)
	}
	n.WriteString("</svg>")
	bottom := height - axisHeight
	for _, tick := range ticks(t.from, t.to, 6) {
		fmt.Fprintf(&b, `<line class="tick" x1="%[1]s" x2="%[1]s" y1="0" y2="%[2]d"/>`+
			`<text class="ms" x="%[1]s" y="%[3]d">%[4]s</text>`,
			t.x(tick), bottom, bottom+15, axisLabel(tick, t.to-t.from))
	}
	for i := range t.bars {
		t.bar(&b, &t.bars[i])
	}
	b.WriteString("</svg>")
	return n.String(), b.String()
}

func (t *timeline) bar(b *strings.Builder, bar *bar) {
	y := t.y(bar.lane)
	fmt.Fprintf(b, `<g><title>%s</title>`, html.EscapeString(bar.title(t.voice)))
	if bar.from > bar.asked {
		fmt.Fprintf(b, `<rect class="wait" x="%s" y="%d" width="%s" height="%d"/>`, t.x(bar.asked), y+2,
			t.width(bar.asked, bar.from), barHeight-4)
	}
	fmt.Fprintf(b, `<rect class="hold" x="%s" y="%d" width="%s" height="%d"/>`, t.x(bar.from), y,
		t.width(bar.from, bar.to), barHeight)
	if bar.together > 0 {
		fmt.Fprintf(b, `<rect class="overlap" x="%s" y="%d" width="%s" height="%d"/>`, t.x(bar.firstMet), y,
			t.width(bar.firstMet, bar.last), barHeight)
	}
	b.WriteString("</g>")
}

// title returns the text that the page shows when the pointer is on the bar.
func (h *hold) title(v voice) string {
	r := h.rec
	lines := []string{
		v.say("bar.order", "order", r.OrderID),
		v.say("bar.who", "instance", instance(r.Instance), "worker", r.Worker, "request", r.Seq),
		v.say("bar.held", "waited", millis(h.from-h.asked), "held", millis(h.to-h.from), "from", millis(h.from)),
	}
	switch {
	case r.Blind:
	case r.Segment > 0:
		lines = append(lines, v.say("bar.read-segment", "read", r.Read, "version", r.Version, "segment", r.Segment,
			"wrote", r.Remaining))
	default:
		lines = append(lines, v.say("bar.read", "read", r.Read, "version", r.Version, "wrote", r.Remaining))
	}
	if r.Fence > 0 {
		lines = append(lines, v.say("bar.fence", "fence", r.Fence))
	}
	if r.Batch != nil {
		lines = append(lines, v.say("bar.batch", "place", r.Batch.Place, "size", r.Batch.Size))
	}
	if h.together > 1 {
		lines = append(lines, v.say("bar.met-several", "who", h.partner.party(), "n", h.together-1))
	} else if h.together > 0 {
		lines = append(lines, v.say("bar.met", "who", h.partner.party()))
	}
	return strings.Join(lines, "\n")
}

// caption describes the picture in a sentence, for readers who cannot see it.
func (t *timeline) caption() string {
	holds, lanes := t.count("hold", int64(len(t.bars))), t.count("lane", int64(len(t.lanes)))
	if t.Overlaps > 0 {
		return t.say("caption.timeline-pairs", "holds", holds, "lanes", lanes, "from", millis(t.from),
			"to", millis(t.to), "pairs", t.count("pair", int64(t.Overlaps)))
	}
	return t.say("caption.timeline", "holds", holds, "lanes", lanes, "from", millis(t.from), "to", millis(t.to))
}

func (t *timeline) height() int { return t.y(len(t.lanes)-1) + laneHeight + axisHeight }

// y returns the top of the bars of a lane. Lanes of one instance stand together.
func (t *timeline) y(at int) int {
	y := groupGap
	for i := 1; i <= at; i++ {
		y += laneHeight
		if t.lanes[i].instance != t.lanes[i-1].instance {
			y += groupGap
		}
	}
	return y
}

func (t *timeline) x(ms float64) string {
	return fmt.Sprintf("%.3f%%", 100*(ms-t.from)/max(t.to-t.from, 1e-9))
}

// width returns the width of a bar, at least a visible one.
func (t *timeline) width(from, to float64) string {
	return fmt.Sprintf("%.3f%%", max(100*(to-from)/max(t.to-t.from, 1e-9), 0.08))
}

// short keeps the end of a long name, since names of instances differ there.
func (t *timeline) short(name string) string {
	r := []rune(t.in(instance(name)))
	if len(r) <= 10 {
		return string(r)
	}
	return "…" + string(r[len(r)-9:])
}

// Alone explains a run without overlaps.
func (t *timeline) Alone() string {
	if mustExclude(t.strategy, 0) {
		return t.say("page.nobody-met")
	}
	return t.say("page.several-may")
}

// A lane has the holds of one worker on one instance. They overlap only if a proxy retried a request of the worker.
type lane struct {
	instance string
	worker   int
}

// A timeline is the part of a story that is drawn.
type timeline struct {
	*story
	voice
	from, to  float64 // in milliseconds since the start of the run
	bars      []bar
	lanes     []lane
	lanesLeft int // lanes that have holds in this window and are not drawn
	total     int // holds of the run
	inWindow  int // holds in this window
	strategy  *loadtest.Strategy
	HasWaits  bool
}

// A bar is a hold in its lane.
type bar struct {
	*hold
	lane int
}

// limits bounds what is drawn, because more would be indistinguishable and make the page slow.
type limits struct{ holds, lanes int }

// lay chooses what to draw: all of a short run, or a window of a longer one with that many holds, around the first
// overlap or else from the start.
func lay(v voice, r *loadtest.Result, most limits) *timeline {
	s := tell(r)
	t := &timeline{story: s, voice: v, total: len(s.holds), from: 0, to: s.length, strategy: &r.Strategy}
	window := s.holds
	if len(window) > most.holds {
		first := max(slices.IndexFunc(window, func(h hold) bool { return h.together > 0 }), 0)
		first = min(max(first-most.holds/10, 0), len(window)-most.holds)
		window = window[first : first+most.holds]
		t.from, t.to = window[0].from, window[0].to
		for i := range window {
			t.to = max(t.to, window[i].to)
		}
	}
	// The clock of an instance may be slightly before the start of the run by our clock.
	for i := range window {
		t.from = min(t.from, max(window[i].asked, t.from-100, window[i].from-100))
		t.to = max(t.to, window[i].to)
	}
	t.inWindow = len(window)
	t.fill(window, most.lanes)
	return t
}

// fill puts the holds into lanes, by instance and worker. If there are too many lanes it keeps those with the most
// overlaps, then those with the most holds.
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

// A hold is the stay of one accepted request in the critical section, in milliseconds since the start of the run.
// Waits and holds are by the instance's own clock; only where they stand relative to those of another computer
// depends on how well the clocks agree.
type hold struct {
	rec            *loadtest.Record
	asked          float64 // start of the wait
	from, to       float64
	excludes       bool // no other hold may be in the same critical section
	together       int  // holds of the same critical section that it overlapped
	partner        *hold
	firstMet, last float64 // start and end of its overlaps
}

// room is a critical section: that of a SKU, or of one segment of it.
type room struct {
	sku     string
	segment int
}

func (h *hold) room() room { return room{h.rec.SKU, h.rec.Segment} }

// A pair is two holds that were in one critical section at once.
type pair struct{ first, second *hold } // by their start

// collide reports whether both read the same version.
func (p pair) collide() bool { return p.first.rec.Version == p.second.rec.Version }

func (p pair) overlap() float64 { return min(p.first.to, p.second.to) - p.second.from }

// sentence names both holds.
func (p pair) sentence() words.Text {
	a, b, together := p.first.party(), p.second.party(), millis(p.overlap())
	if p.collide() {
		return phrases.Say("pair.same", "one", a, "other", b, "for", together, "version", p.first.rec.Version)
	}
	return phrases.Say("pair.other", "one", a, "other", b, "for", together)
}

// party names the order of a hold and its instance.
func (h *hold) party() words.Text {
	return phrases.Say("pair.party", "order", h.rec.OrderID, "instance", instance(h.rec.Instance),
		"worker", h.rec.Worker)
}

func instance(name string) words.Text {
	if name == "" {
		return phrases.Say("page.no-instance")
	}
	return words.Same(name)
}

// A story holds the holds of a run, and their overlaps.
type story struct {
	start    time.Time // of the run
	length   float64   // of the run, in milliseconds
	holds    []hold    // by from
	Overlaps int       // overlapping pairs in a room for one holder
	shown    []pair    // some of them: first those that read the same version, so that one update is lost
	missing  int       // accepted requests without times
	Batches  int       // in which something was sold
}

// sameBatch reports whether both are sales of one batch, which is one hold of the lock.
func (h *hold) sameBatch(other *hold) bool {
	return h.rec.Batch != nil && other.rec.Batch != nil && h.rec.Batch.ID == other.rec.Batch.ID
}

// mustExclude reports whether two holds of one room at once are a fault, promised or not. The holds of a strategy that
// excludes lost updates without a lock, by a version or a single statement, may overlap.
func mustExclude(s *loadtest.Strategy, segment int) bool {
	return s.Promise.Exclusive || s.Promise.Scope != loadtest.Cluster || segment > 0
}

// maxPairs is the number of pairs that are named. All are counted.
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
	slices.SortFunc(s.holds,
		func(a, b hold) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.rec.Seq, b.rec.Seq)) })
	batches := make(map[string]bool)
	for i := range s.holds {
		if b := s.holds[i].rec.Batch; b != nil {
			batches[b.ID] = true
		}
	}
	s.Batches = len(batches)
	s.meet()
	return s
}

func (s *story) ms(t time.Time) float64 { return float64(t.Sub(s.start)) / float64(time.Millisecond) }

// meet finds the overlaps: one pass in the order of the starts, with the holds that have not ended yet.
func (s *story) meet() {
	inside := make(map[room][]*hold)
	var harmless []pair
	for i := range s.holds {
		h := &s.holds[i]
		if !h.excludes {
			continue
		}
		there := slices.DeleteFunc(inside[h.room()], func(o *hold) bool { return o.to <= h.from })
		for _, other := range there {
			if h.sameBatch(other) {
				continue
			}
			p := pair{other, h}
			s.Overlaps++
			switch {
			case p.collide() && len(s.shown) < maxPairs:
				s.shown = append(s.shown, p)
			case !p.collide() && len(harmless) < maxPairs:
				harmless = append(harmless, p)
			}
			other.met(h, h.from, min(h.to, other.to))
			h.met(other, h.from, min(h.to, other.to))
		}
		inside[h.room()] = append(there, h)
	}
	s.shown = append(s.shown, harmless[:min(len(harmless), maxPairs-len(s.shown))]...)
}

// met records that h overlapped other. The time from the first to the last overlap is drawn as one, gaps included.
func (h *hold) met(other *hold, from, to float64) {
	if h.together == 0 {
		h.partner, h.firstMet, h.last = other, from, to
	}
	h.together++
	h.firstMet, h.last = min(h.firstMet, from), max(h.last, to)
}
