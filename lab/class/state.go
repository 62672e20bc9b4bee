package class

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
)

// A State is the content of the wall, derived from events. Events are ordered by their source's numbers, and never
// depend on other sources. So any interleaving of the sources gives the same State.
//
// Sums over all requests are updated incrementally, so that at 2,000 events a second a frame does not cost more for
// finished requests.
//
// It is not safe for concurrent use.
type State struct {
	run     int
	plans   map[int]RunEvent        // by run
	reqs    map[string]*request     // of this run
	latest  map[string]RunEvent     // latest event of each single-valued kind, by name
	stocks  map[int][]stockLook     // of this and later runs, by number
	faults  map[string][]RunEvent   // standing events of each server, by number
	dropped map[int]map[place]gapOf // by run

	// counted from reqs
	last       int                  // the largest number of a request
	open       map[string]*request  // not finished
	unanswered int                  // requests without a reply
	sellers    map[version][]string // the requests that sold, by the version that they had read
	collisions int
	tally      tally
	batches    map[string]int // sales, by batch
	leases     []RunEvent     // leased and freed, by number
	newest     string         // the largest fencing token of a sale
	fences     []string       // ascending
	fenced     map[string]int
	changed    []string // requests whose token changed since changes was called; may repeat
}

type place struct {
	from string
	boot int64
	seq  uint64
}

type gapOf struct{ count uint64 }

// A stockLook is one reading of the stock.
type stockLook struct {
	at      int64
	seq     uint64
	counted bool
	StockSeen
}

// A request has the events of one request and its token.
type request struct {
	fired, answered *RunEvent
	steps           []RunEvent // by source and number

	seen *token          // derived from the above
	text json.RawMessage // seen as JSON; nil: seen has changed
}

// NewState returns the State before the first event.
func NewState() *State {
	s := &State{
		plans: make(map[int]RunEvent), latest: make(map[string]RunEvent), stocks: make(map[int][]stockLook),
		faults: make(map[string][]RunEvent), dropped: make(map[int]map[place]gapOf),
	}
	s.forget()
	return s
}

// forget begins a run without requests.
func (s *State) forget() {
	s.reqs, s.open = make(map[string]*request), make(map[string]*request)
	s.sellers = make(map[version][]string)
	s.tally, s.batches, s.leases, s.newest = tally{}, make(map[string]int), nil, ""
	s.last, s.unanswered, s.collisions, s.fences, s.fenced, s.changed = 0, 0, 0, nil, make(map[string]int), nil
}

// Apply adds an event.
func (s *State) Apply(e RunEvent) {
	run := e.Run
	if e.Req != "" {
		run = runOf(e.Req)
	}
	if run > 0 && run < s.run {
		return // of an earlier run
	}
	s.advance(run)
	switch e.Kind {
	case runBegan:
		s.plans[e.Run] = e
	case stockSeen:
		seen := stockLook{e.At, e.Seq, e.counted, *e.Stock}
		s.stocks[e.Run] = insert(s.stocks[e.Run], seen, func(a, b stockLook) int { return cmp.Compare(a.seq, b.seq) })
	case standing:
		s.faults[e.Server] = insert(s.faults[e.Server], e, bySource)
	case gap:
		if s.dropped[e.Run] == nil {
			s.dropped[e.Run] = make(map[place]gapOf)
		}
		s.dropped[e.Run][place{e.From, e.Boot, e.Seq}] = gapOf{e.Count}
	case leased, freed:
		if run > 0 {
			s.leases = insert(s.leases, e, bySource)
		}
	case pausing, voting, crowd, allFired, rating, judged, stopped, autoPlay, queued, answersOf:
		if old, ok := s.latest[e.Kind]; !ok || old.Seq < e.Seq {
			s.latest[e.Kind] = e
		}
	default:
		if run > 0 {
			s.change(e)
		}
	}
}

// advance drops the data of earlier runs.
func (s *State) advance(run int) {
	if run <= s.run {
		return
	}
	s.run = run
	s.forget()
	maps.DeleteFunc(s.plans, func(n int, _ RunEvent) bool { return n < run })
	maps.DeleteFunc(s.stocks, func(n int, _ []stockLook) bool { return n < run })
	maps.DeleteFunc(s.dropped, func(n int, _ map[place]gapOf) bool { return n < run })
}

// change adds an event of a request.
func (s *State) change(e RunEvent) {
	id := e.Req
	r := s.reqs[id]
	if r == nil {
		r = &request{}
		s.reqs[id] = r
		s.last = max(s.last, numberOf(id))
		s.unanswered++
	} else {
		s.uncount(id, r)
	}
	switch e.Kind {
	case fired:
		r.fired = &e
	case answered:
		if r.answered == nil {
			s.unanswered--
		}
		r.answered = &e
	default:
		r.steps = insert(r.steps, e, bySource)
	}
	r.seen = r.token(id)
	s.redraw(id)
	s.count(id, r)
}

// count adds a request to the sums.
func (s *State) count(id string, r *request) {
	if r.seen.Phase != "done" {
		s.open[id] = r
	}
	s.tallyReply(r, 1)
	if digits := r.seen.Digits; r.seen.sold && byValue(digits, s.newest) > 0 {
		s.newest = digits
	}
	if r.seen.sold && r.seen.version.epoch > 0 {
		others := s.sellers[r.seen.version]
		if len(others) > 0 {
			s.collisions++
		}
		s.redraw(others...)
		s.sellers[r.seen.version] = append(others, id)
	}
	if digits := r.seen.Digits; digits != "" {
		if s.fenced[digits]++; s.fenced[digits] == 1 {
			at, _ := slices.BinarySearchFunc(s.fences, digits, byValue)
			s.fences = slices.Insert(s.fences, at, digits)
			if at < len(s.fences)-1 { // the ranks of larger ones change
				s.redraw(slices.Collect(maps.Keys(s.reqs))...)
			}
		}
	}
}

// uncount removes a request from the sums.
func (s *State) uncount(id string, r *request) {
	delete(s.open, id)
	s.tallyReply(r, -1)
	if others := s.sellers[r.seen.version]; slices.Contains(others, id) {
		others = slices.DeleteFunc(others, func(o string) bool { return o == id })
		if s.sellers[r.seen.version] = others; len(others) > 0 {
			s.collisions--
		}
		s.redraw(others...)
	}
	if digits := r.seen.Digits; digits != "" {
		if s.fenced[digits]--; s.fenced[digits] == 0 {
			delete(s.fenced, digits)
			at, _ := slices.BinarySearchFunc(s.fences, digits, byValue)
			if s.fences = slices.Delete(s.fences, at, at+1); at < len(s.fences) {
				s.redraw(slices.Collect(maps.Keys(s.reqs))...)
			}
		}
	}
}

// redraw marks the tokens of requests as changed.
func (s *State) redraw(ids ...string) {
	for _, id := range ids {
		if r := s.reqs[id]; r != nil {
			r.text = nil
			s.changed = append(s.changed, id)
		}
	}
}

// changes returns, without repeats, the requests whose token may have changed since the last call.
func (s *State) changes() []string {
	slices.Sort(s.changed)
	list := slices.Compact(s.changed)
	s.changed = nil
	return list
}

// expect sets all fencing tokens of the run in advance, so that no rank changes.
func (s *State) expect(fences []string) {
	s.fences = fences
	for _, digits := range fences {
		s.fenced[digits]++
	}
}

// sold reports whether a request has sold.
func (s *State) sold(id string) bool { r := s.reqs[id]; return r != nil && r.seen.sold }

// drop removes a finished request that is not drawn. It stays in the sums.
func (s *State) drop(id string) { delete(s.reqs, id) }

// byValue compares fencing tokens, which have no leading zeros.
func byValue(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// token returns the token of a request, or nil if the id is unknown.
func (s *State) token(id string) *token {
	r := s.reqs[id]
	if r == nil {
		return nil
	}
	t := r.seen
	t.Fence = 0
	if t.Digits != "" {
		rank, _ := slices.BinarySearchFunc(s.fences, t.Digits, byValue)
		t.Fence = 1 + rank
	}
	t.Than = 0
	if t.Outcome == "stale_fence" && byValue(s.newest, t.Digits) > 0 {
		rank, _ := slices.BinarySearchFunc(s.fences, s.newest, byValue)
		t.Than = 1 + rank
	}
	t.Twin, t.With = t.sold && len(s.sellers[t.version]) > 1, nil
	if t.Twin {
		for _, other := range s.sellers[t.version] {
			if other != id && len(t.With) < mostTies {
				t.With = append(t.With, numberOf(other))
			}
		}
		slices.Sort(t.With)
	}
	return t
}

// names returns the customers of requests, or their numbers.
func (s *State) names(numbers []int) (names []string) {
	for _, n := range numbers {
		if who := s.seen(n).Who; who != "" {
			names = append(names, who)
		} else {
			names = append(names, "#"+strconv.Itoa(n))
		}
	}
	return names
}

// mostTies is the number of other orders with which the page joins an order.
const mostTies = 4

// bySource compares events by source and number.
func bySource(a, b RunEvent) int {
	return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Seq, b.Seq))
}

// insert adds e to a sorted list, unless an equal element is present.
func insert[T any](list []T, e T, order func(a, b T) int) []T {
	at, found := slices.BinarySearchFunc(list, e, order)
	if found {
		return list
	}
	return slices.Insert(list, at, e)
}

// A View has the values of a page, by key. A page keeps its values until a Frame replaces them.
type View map[string]json.RawMessage

// A Frame has changed values; null removes a key.
type Frame struct {
	At  int64                      `json:"at"` // Unix time in µs
	Set map[string]json.RawMessage `json:"set"`
}

// Diff returns the changes from old to v.
func (v View) Diff(old View) map[string]json.RawMessage {
	set := make(map[string]json.RawMessage)
	for key, value := range v {
		if string(old[key]) != string(value) {
			set[key] = value
		}
	}
	for key := range old {
		if _, kept := v[key]; !kept {
			set[key] = json.RawMessage("null")
		}
	}
	return set
}

// A token is a request's view on the wall.
type token struct {
	N       int    `json:"n"`
	Good    int    `json:"good,omitempty"` // the SKU
	Who     string `json:"who,omitempty"`
	App     string `json:"app,omitempty"`
	Phase   string `json:"phase"` // sent, waits, in, read, thinks, writes, wrote, done
	Read    *int64 `json:"read,omitempty"`
	Wrote   *int64 `json:"wrote,omitempty"`
	Fence   int    `json:"fence,omitempty"`   // rank of the fencing token in the run: 1 is the smallest
	Digits  string `json:"digits,omitempty"`  // the fencing token itself
	Point   string `json:"point,omitempty"`   // the pause point at which it waits
	Outcome string `json:"outcome,omitempty"` // in phase done
	// Replayed is true if the reply repeats that to an earlier request with the same Idempotency-Key; nothing was sold.
	Replayed bool    `json:"replayed,omitempty"`
	Same     int     `json:"same,omitempty"` // the request whose key it repeats
	Than     int     `json:"than,omitempty"` // of a refused write: the rank of the newest token that has sold
	Twin     bool    `json:"twin,omitempty"` // another order read the same version: one update is lost
	With     []int   `json:"with,omitempty"` // the orders that read the same version
	Fired    int64   `json:"fired,omitempty"`
	Holds    []hold  `json:"holds,omitempty"`
	Ended    int64   `json:"ended,omitempty"`
	WaitsAt  int64   `json:"waits_at,omitempty"`
	ReadAt   int64   `json:"read_at,omitempty"`
	WroteAt  int64   `json:"wrote_at,omitempty"`
	Version  uint64  `json:"version,omitempty"` // that it has read: the order of the writes
	Woken    []int64 `json:"woken,omitempty"`   // when the lock server woke it
	Batch    string  `json:"batch,omitempty"`
	version  version // that the sale had read
	sold     bool
}

type hold struct {
	From    int64 `json:"from"`
	To      int64 `json:"to,omitempty"` // 0: not ended
	Segment int   `json:"segment,omitempty"`
}

// A version identifies the stock that a sale read.
type version struct {
	sku           string
	epoch, number uint64
	segment       int
}

// token derives the token of a request.
func (r *request) token(id string) *token {
	t := &token{N: numberOf(id), Phase: "sent"}
	if r.fired != nil {
		t.Fired, t.Who, t.Same = r.fired.At, r.fired.Who, numberOf(r.fired.Key)
	}
	for _, e := range r.inOrder() {
		t.step(e)
	}
	if r.answered != nil && t.Phase != "done" {
		t.Phase, t.Outcome, t.Point, t.Ended = "done", r.answered.Outcome, "", r.answered.At
		t.Replayed = r.answered.Replayed
		if t.sold = t.Outcome == accepted && !t.Replayed; !t.sold {
			t.closeHold(r.answered.At)
		}
	}
	return t
}

// accepted is the outcome of a successful sale.
const accepted = "accepted"

// inOrder returns the steps in causal order. They may be from several sources, because nginx tries another instance
// after a failure. Sources are sorted by their first step.
func (r *request) inOrder() []RunEvent {
	var groups [][]RunEvent
	for _, e := range r.steps {
		last := len(groups) - 1
		if last < 0 || groups[last][0].From != e.From || groups[last][0].Boot != e.Boot {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], e)
	}
	slices.SortStableFunc(groups, func(a, b []RunEvent) int { return cmp.Compare(a[0].At, b[0].At) })
	return slices.Concat(groups...)
}

// step applies one step of an instance.
func (t *token) step(e RunEvent) {
	t.App, t.Good = e.From, goodOf(e.SKU)
	see := func() {
		t.Read, t.Version = &e.Read, e.Version
		t.version = version{e.SKU, e.Epoch, e.Version, e.Segment}
		if t.ReadAt == 0 {
			t.ReadAt = e.At
		}
	}
	switch e.Kind {
	case "waits", "arrived":
		t.Phase, t.WaitsAt = "waits", cmp.Or(t.WaitsAt, e.At)
	case "woken":
		t.Woken = append(t.Woken, e.At)
	case "acquired":
		t.Phase, t.Digits, t.Batch = "in", e.Fence, e.Batch
		t.Holds = append(t.Holds, hold{From: e.At})
	case "read":
		t.Phase = "read"
		see()
	case "thinks":
		t.Phase = "thinks"
	case "writes":
		t.Phase = "writes"
	case "wrote":
		t.Phase, t.Wrote, t.WroteAt = "wrote", &e.Remaining, e.At
		see()
		t.sold = true
	case "released":
		t.Phase = "waits" // without an end, it tries again
		if t.sold {
			t.Phase = "wrote"
		}
		t.closeHold(e.At)
	case "paused":
		t.Point = e.Point
	case "resumed":
		t.Point = ""
	case "ended":
		t.Phase, t.Outcome, t.Ended, t.Point, t.Replayed = "done", e.Outcome, e.At, "", e.Replayed
		if t.sold = e.Outcome == accepted && !t.Replayed; t.sold {
			t.Wrote = &e.Remaining
			see()
		} else {
			t.Wrote = nil
		}
		t.closeHold(e.At)
	}
	if n := len(t.Holds); n > 0 && e.Segment != 0 {
		t.Holds[n-1].Segment = e.Segment
	}
}

func (t *token) closeHold(at int64) {
	if n := len(t.Holds); n > 0 && t.Holds[n-1].To == 0 {
		t.Holds[n-1].To = at
	}
}

// View returns the current values of the page.
func (s *State) View() View {
	v := make(View)
	put := func(key string, value any) {
		text, err := json.Marshal(value)
		if err == nil { // no value here can fail
			v[key] = text
		}
	}
	drawn := s.drawn()
	s.changed = nil
	window := int64(math.MaxInt64)
	for id, r := range drawn {
		if r.text == nil {
			put("t:"+id, s.token(id))
			r.text = v["t:"+id]
		}
		v["t:"+id] = r.text
		if r.seen.Fired > 0 {
			window = min(window, r.seen.Fired)
		}
	}
	if len(drawn) < len(s.reqs) {
		put("window", window)
		put("drawn_last", map[string]int{"n": len(drawn), "of": len(s.reqs)})
	}
	put("run", s.runView())
	put("verdict", s.shownVerdict())
	for _, kind := range []string{pausing, voting, crowd, autoPlay} {
		if e, ok := s.latest[kind]; ok {
			put(kind, e)
		}
	}
	for _, kind := range []string{rating, stopped, queued, answersOf} {
		if e, ok := s.latest[kind]; ok && e.Run == s.run {
			put(kind, e)
		}
	}
	put("tally", s.tally)
	if c := s.caption(); c != nil {
		put("caption", c)
	}
	if leases := s.leaseViews(); len(leases) > 0 {
		put("leases", leases)
	}
	for name, list := range s.faults {
		put("server:"+name, list[len(list)-1].State)
		put("faults:"+name, s.bands(list))
	}
	return v
}

// runView returns the plan of the run, and when it began.
func (s *State) runView() any {
	began := s.plans[s.run]
	return struct {
		N    int      `json:"n"`
		At   int64    `json:"at"`
		Plan *RunPlan `json:"plan,omitempty"`
	}{s.run, began.At, began.Plan}
}

// A band is an interval in which a server was not up.
type band struct {
	State string `json:"state"`
	From  int64  `json:"from"`
	To    int64  `json:"to,omitempty"`
}

// bands returns the bands of this run.
func (s *State) bands(list []RunEvent) []band {
	bands := []band{}
	for i, e := range list {
		if e.State == "up" {
			continue
		}
		b := band{State: e.State, From: e.At}
		if i+1 < len(list) {
			b.To = list[i+1].At
		}
		if b.To == 0 || b.To > s.plans[s.run].At {
			bands = append(bands, b)
		}
	}
	return bands
}

// Limits of what is drawn of a run with many requests, so that a page keeps up.
const (
	drawnLatest = 240
	drawnOpen   = 120
)

// drawn returns the requests that a page draws: all, or, if there are many, the latest and the longest in progress.
func (s *State) drawn() map[string]*request {
	if len(s.reqs) <= drawnLatest {
		return s.reqs
	}
	drawn := make(map[string]*request, drawnLatest+drawnOpen)
	for n := s.last; n > s.last-drawnLatest; n-- {
		id := nameOf(s.run, n)
		if r := s.reqs[id]; r != nil {
			drawn[id] = r
		}
	}
	open := slices.Collect(maps.Keys(s.open))
	slices.SortFunc(open, func(a, b string) int { return cmp.Or(numberOf(a)-numberOf(b), cmp.Compare(a, b)) })
	for _, id := range open[:min(len(open), drawnOpen)] {
		drawn[id] = s.reqs[id]
	}
	return drawn
}
