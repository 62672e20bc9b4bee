package class

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// A State is the content of the wall, derived from events. Events are ordered by their source's numbers, and never
// depend on other sources. So any interleaving of the sources gives the same State.
//
// It is not safe for concurrent use.
type State struct {
	latest map[string]RunEvent   // latest event of each single-valued kind that belongs to no run, by kind
	faults map[string][]RunEvent // standing events of each server, by number
	most   int                   // how many of the latest requests are drawn

	run     int
	reqs    map[string]*request
	ofRun   map[string]RunEvent // latest event of each single-valued kind, by kind
	known   RunEvent            // latest reading of the stock that has succeeded
	dropped map[place]uint64    // how many steps
	leases  []RunEvent          // leased and freed, by number
	last    int                 // the largest number of a request
	summed  *sums               // of reqs; nil: an event has come since
}

type place struct {
	from string
	boot int64
	seq  uint64
}

// A request has the events of one request and its token.
type request struct {
	fired, answered *RunEvent
	steps           []RunEvent // by source and number

	seen *token          // derived from the above
	text json.RawMessage // seen as JSON, when it was drawn as
	as   drawnAs
}

// A drawnAs has what the text of a token follows from.
type drawnAs struct {
	seen               *token
	fence, than, twins int
}

// NewState returns the State before the first event.
func NewState() *State {
	s := &State{latest: make(map[string]RunEvent), faults: make(map[string][]RunEvent), most: drawnLatest}
	s.begin(0)
	return s
}

// begin begins a run without events.
func (s *State) begin(run int) {
	s.run, s.reqs, s.ofRun, s.known = run, make(map[string]*request), make(map[string]RunEvent), RunEvent{}
	s.dropped, s.leases, s.last, s.summed = make(map[place]uint64), nil, 0, nil
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
	if run > s.run {
		s.begin(run)
	}
	switch e.Kind {
	case standing:
		s.faults[e.Server] = insert(s.faults[e.Server], e, bySource)
	case gap:
		s.dropped[place{e.From, e.Boot, e.Seq}] = e.Count
	case leased, freed:
		if run > 0 {
			s.leases = insert(s.leases, e, bySource)
		}
	case pausing, voting, crowd, autoPlay:
		keepLatest(s.latest, e)
	case runBegan, stockSeen, allFired, rating, judged, stopped, queued, answersOf:
		keepLatest(s.ofRun, e)
		if e.Kind == stockSeen && e.Stock.Known && e.Seq > s.known.Seq {
			s.known = e
		}
	default:
		if run > 0 {
			s.change(e)
		}
	}
}

func keepLatest(of map[string]RunEvent, e RunEvent) {
	if old, ok := of[e.Kind]; !ok || old.Seq < e.Seq {
		of[e.Kind] = e
	}
}

// plan returns the plan of the run. It is empty before the first.
func (s *State) plan() RunPlan {
	if began, ok := s.ofRun[runBegan]; ok {
		return *began.Plan
	}
	return RunPlan{}
}

// has reports whether an event of a kind has come in this run.
func (s *State) has(kind string) bool { _, ok := s.ofRun[kind]; return ok }

// stateOf returns the state of a server.
func (s *State) stateOf(server string) string {
	if list := s.faults[server]; len(list) > 0 {
		return list[len(list)-1].State
	}
	return ""
}

// standing returns the latest state of each server.
func (s *State) standing() (list []RunEvent) {
	for _, name := range slices.Sorted(maps.Keys(s.faults)) {
		list = append(list, s.faults[name][len(s.faults[name])-1])
	}
	return list
}

// change adds an event of a request.
func (s *State) change(e RunEvent) {
	id := e.Req
	r := s.reqs[id]
	if r == nil {
		r = &request{}
		s.reqs[id] = r
		s.last = max(s.last, numberOf(id))
	}
	switch e.Kind {
	case fired:
		r.fired = &e
	case answered:
		r.answered = &e
	default:
		r.steps = insert(r.steps, e, bySource)
	}
	r.seen, s.summed = r.token(id), nil
}

// A sums has what follows from all requests of a run together.
type sums struct {
	tally
	waiting, inside int
	unanswered      int               // requests without a reply
	sellers         map[version][]int // the requests that sold, by the version that they had read, in order
	collisions      int
	newest          string   // the largest fencing token of a sale
	fences          []string // ascending
}

// sums returns the sums of the requests so far.
func (s *State) sums() *sums {
	if s.summed != nil {
		return s.summed
	}
	all := &sums{sellers: make(map[version][]int)}
	batches := make(map[string]bool)
	for _, r := range s.reqs {
		all.add(r, batches)
	}
	for _, numbers := range all.sellers {
		slices.Sort(numbers)
		all.collisions += len(numbers) - 1
	}
	slices.SortFunc(all.fences, byValue)
	all.fences = slices.Compact(all.fences)
	s.summed = all
	return all
}

// add adds a request. batches has the batches that were counted as writes.
func (all *sums) add(r *request, batches map[string]bool) {
	t := r.seen
	switch t.Phase {
	case "done":
	case "waits", "sent":
		all.waiting++
	default:
		all.inside++
	}
	all.tally.add(r, batches)
	if r.answered == nil {
		all.unanswered++
	}
	if t.Digits != "" {
		all.fences = append(all.fences, t.Digits)
	}
	if !t.sold {
		return
	}
	if byValue(t.Digits, all.newest) > 0 {
		all.newest = t.Digits
	}
	if t.version.epoch > 0 {
		all.sellers[t.version] = append(all.sellers[t.version], t.N)
	}
}

// byValue compares fencing tokens, which have no leading zeros.
func byValue(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// token returns the token of a request, or nil if the id is unknown.
func (s *State) token(id string) *token {
	r := s.reqs[id]
	if r == nil {
		return nil
	}
	t, all := r.seen, s.sums()
	t.Fence, t.Than = 0, 0
	if t.Digits != "" {
		t.Fence = all.rank(t.Digits)
	}
	if t.Outcome == "stale_fence" && byValue(all.newest, t.Digits) > 0 {
		t.Than = all.rank(all.newest)
	}
	t.Twin, t.With = t.sold && len(all.sellers[t.version]) > 1, nil
	if t.Twin {
		for _, other := range all.sellers[t.version] {
			if other != t.N && len(t.With) < mostTies {
				t.With = append(t.With, other)
			}
		}
	}
	return t
}

// rank returns the rank of a fencing token, from 1.
func (all *sums) rank(digits string) int {
	at, _ := slices.BinarySearchFunc(all.fences, digits, byValue)
	return 1 + at
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
	Digits  string `json:"-"`                 // the fencing token itself
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
	for id, r := range drawn {
		t := s.token(id)
		if as := (drawnAs{t, t.Fence, t.Than, len(s.sums().sellers[t.version])}); as != r.as {
			put("t:"+id, t)
			r.text, r.as = v["t:"+id], as
		}
		v["t:"+id] = r.text
	}
	if len(drawn) < len(s.reqs) {
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
		if e, ok := s.ofRun[kind]; ok {
			put(kind, e)
		}
	}
	put("tally", s.sums().tally)
	if c := s.caption(); c != nil {
		put("caption", c)
	}
	if leases := s.leaseViews(); len(leases) > 0 {
		put("leases", leases)
	}
	for name, list := range s.faults {
		put("faults:"+name, s.bands(list))
	}
	return v
}

// runView returns the plan of the run, and when it began.
func (s *State) runView() any {
	began := s.ofRun[runBegan]
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
		if b.To == 0 || b.To > s.ofRun[runBegan].At {
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
	if len(s.reqs) <= s.most {
		return s.reqs
	}
	drawn := make(map[string]*request, s.most+drawnOpen)
	var open []string
	for id, r := range s.reqs {
		if r.seen.N > s.last-s.most {
			drawn[id] = r
		} else if r.seen.Phase != "done" {
			open = append(open, id)
		}
	}
	slices.SortFunc(open, func(a, b string) int { return cmp.Or(numberOf(a)-numberOf(b), cmp.Compare(a, b)) })
	for _, id := range open[:min(len(open), drawnOpen)] {
		drawn[id] = s.reqs[id]
	}
	return drawn
}
