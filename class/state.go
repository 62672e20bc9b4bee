package class

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// A State is what the wall shows, made of events. Each event changes only what is its own, or is put in its place by
// its source's number. So any interleaving of the sources gives the same State: instances tell at their own pace.
//
// It is not safe for concurrent use.
type State struct {
	run     int
	plans   map[int]Event           // by run
	reqs    map[string]*request     // of this run and later ones
	latest  map[string]Event        // of what has one value, by name: the latest counts
	stocks  map[int][]Event         // of this run and later ones, by number
	faults  map[string][]Event      // standing, by server, by number
	dropped map[int]map[place]gapOf // by run
}

type place struct {
	from string
	boot int64
	seq  uint64
}

type gapOf struct{ count uint64 }

// A request is all that is known of one request.
type request struct {
	fired, answered *Event
	steps           []Event // by source, and there by number
}

// NewState returns the State before the first event.
func NewState() *State {
	return &State{
		plans: make(map[int]Event), reqs: make(map[string]*request), latest: make(map[string]Event),
		stocks: make(map[int][]Event), faults: make(map[string][]Event), dropped: make(map[int]map[place]gapOf),
	}
}

// Apply adds an event.
func (s *State) Apply(e Event) {
	run := e.Run
	if e.Req != "" {
		run = runOf(e.Req)
	}
	if run > 0 && run < s.run {
		return // of a run that is over
	}
	s.advance(run)
	switch e.Kind {
	case runBegan:
		s.plans[e.Run] = e
	case stockSeen:
		s.stocks[e.Run] = insert(s.stocks[e.Run], e)
	case standing:
		s.faults[e.Server] = insert(s.faults[e.Server], e)
	case gap:
		if s.dropped[e.Run] == nil {
			s.dropped[e.Run] = make(map[place]gapOf)
		}
		s.dropped[e.Run][place{e.From, e.Boot, e.Seq}] = gapOf{e.Count}
	case fired, answered:
		r := s.request(e.Req)
		if e.Kind == fired {
			r.fired = &e
		} else {
			r.answered = &e
		}
	case pausing, voting, crowd, note, allFired:
		if old, ok := s.latest[e.Kind]; !ok || old.Seq < e.Seq {
			s.latest[e.Kind] = e
		}
	default:
		if run > 0 {
			r := s.request(e.Req)
			r.steps = insert(r.steps, e)
		}
	}
}

// advance forgets what is of earlier runs.
func (s *State) advance(run int) {
	if run <= s.run {
		return
	}
	s.run = run
	maps.DeleteFunc(s.plans, func(n int, _ Event) bool { return n < run })
	maps.DeleteFunc(s.reqs, func(id string, _ *request) bool { return runOf(id) < run })
	maps.DeleteFunc(s.stocks, func(n int, _ []Event) bool { return n < run })
	maps.DeleteFunc(s.dropped, func(n int, _ map[place]gapOf) bool { return n < run })
}

func (s *State) request(id string) *request {
	r := s.reqs[id]
	if r == nil {
		r = &request{}
		s.reqs[id] = r
	}
	return r
}

// insert keeps events in order of source and number. An event that is there already is not added again.
func insert(list []Event, e Event) []Event {
	at, found := slices.BinarySearchFunc(list, e, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Boot, b.Boot), cmp.Compare(a.Seq, b.Seq))
	})
	if found {
		return list
	}
	return slices.Insert(list, at, e)
}

// A View is what a page shows, by key. A page keeps the values that it has and replaces those that a Frame brings.
type View map[string]json.RawMessage

// A Frame is what changed, with null for what is gone.
type Frame struct {
	At  int64                      `json:"at"` // Unix time in µs
	Set map[string]json.RawMessage `json:"set"`
}

// Diff returns what turns old into v.
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

// A token is a request as the wall shows it.
type token struct {
	N       int     `json:"n"`
	Who     string  `json:"who,omitempty"`
	App     string  `json:"app,omitempty"`
	Phase   string  `json:"phase"` // sent, waits, in, read, thinks, writes, wrote, done
	Read    *int64  `json:"read,omitempty"`
	Wrote   *int64  `json:"wrote,omitempty"`
	Fence   int     `json:"fence,omitempty"`   // its rank among those of the run: 1 is the smallest
	Digits  string  `json:"digits,omitempty"`  // the fence itself
	Point   string  `json:"point,omitempty"`   // it stands here
	Outcome string  `json:"outcome,omitempty"` // of done
	Twin    bool    `json:"twin,omitempty"`    // another order read the same version: one update is lost
	Fired   int64   `json:"fired,omitempty"`
	Holds   []hold  `json:"holds,omitempty"`
	Ended   int64   `json:"ended,omitempty"`
	version version // of what it sold
	sold    bool
}

type hold struct {
	From    int64 `json:"from"`
	To      int64 `json:"to,omitempty"` // 0: it lasts
	Segment int   `json:"segment,omitempty"`
}

// A version names what a sale read.
type version struct {
	epoch, number uint64
	segment       int
}

// token derives what is shown of a request.
func (r *request) token(id string) *token {
	t := &token{N: numberOf(id), Phase: "sent"}
	if r.fired != nil {
		t.Fired, t.Who = r.fired.At, r.fired.Who
	}
	for _, e := range r.bySource() {
		t.step(e)
	}
	if r.answered != nil && t.Phase != "done" {
		t.Phase, t.Outcome, t.Point, t.Ended = "done", r.answered.Outcome, "", r.answered.At
		if t.sold = t.Outcome == accepted; !t.sold {
			t.closeHold(r.answered.At)
		}
	}
	return t
}

// accepted is the outcome of a sale.
const accepted = "accepted"

// bySource returns the steps in order. nginx sends a request that it could not deliver to another instance: the sources
// follow each other as they began.
func (r *request) bySource() []Event {
	var groups [][]Event
	for _, e := range r.steps {
		last := len(groups) - 1
		if last < 0 || groups[last][0].From != e.From || groups[last][0].Boot != e.Boot {
			groups = append(groups, nil)
			last++
		}
		groups[last] = append(groups[last], e)
	}
	slices.SortStableFunc(groups, func(a, b []Event) int { return cmp.Compare(a[0].At, b[0].At) })
	return slices.Concat(groups...)
}

// step is one step of the instance.
func (t *token) step(e Event) {
	t.App = e.From
	see := func() {
		t.Read = &e.Read
		t.version = version{e.Epoch, e.Version, e.Segment}
	}
	switch e.Kind {
	case "waits", "arrived":
		t.Phase = "waits"
	case "acquired":
		t.Phase, t.Digits = "in", e.Fence
		t.Holds = append(t.Holds, hold{From: e.At})
	case "read":
		t.Phase = "read"
		see()
	case "thinks":
		t.Phase = "thinks"
	case "writes":
		t.Phase = "writes"
	case "wrote":
		t.Phase, t.Wrote = "wrote", &e.Remaining
		see()
		t.sold = true
	case "released":
		t.Phase = "waits" // as long as no end follows, it tries again
		if t.sold {
			t.Phase = "wrote"
		}
		t.closeHold(e.At)
	case "paused":
		t.Point = e.Point
	case "resumed":
		t.Point = ""
	case "ended":
		t.Phase, t.Outcome, t.Ended, t.Point = "done", e.Outcome, e.At, ""
		if t.sold = e.Outcome == accepted; t.sold {
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

// View returns what is to be shown now.
func (s *State) View() View {
	v := make(View)
	put := func(key string, value any) {
		text, err := json.Marshal(value)
		if err == nil { // nothing that is put here can fail
			v[key] = text
		}
	}
	tokens, verdict := s.tokens()
	for id, t := range tokens {
		put("t:"+id, t)
	}
	put("run", s.runView())
	put("verdict", verdict)
	for _, kind := range []string{pausing, voting, crowd, note} {
		if e, ok := s.latest[kind]; ok && (kind != note || e.Run == s.run) {
			put(kind, e)
		}
	}
	for i, e := range s.stocks[s.run] {
		put("p:"+strconv.Itoa(i), []any{e.At, e.Stock.Written, e.Stock.Initial - e.Stock.Sold, e.Stock.Known})
	}
	for name, list := range s.faults {
		put("server:"+name, list[len(list)-1].State)
		put("faults:"+name, s.bands(list))
	}
	return v
}

// runView is the plan of the run, and when it began.
func (s *State) runView() any {
	began := s.plans[s.run]
	return struct {
		N    int   `json:"n"`
		At   int64 `json:"at"`
		Plan *Plan `json:"plan,omitempty"`
	}{s.run, began.At, began.Plan}
}

// A band is a time in which a server was not as usual.
type band struct {
	State string `json:"state"`
	From  int64  `json:"from"`
	To    int64  `json:"to,omitempty"`
}

// bands returns those of this run.
func (s *State) bands(list []Event) []band {
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

// A Verdict is what the store says of a run.
type Verdict struct {
	Code       string `json:"code"` // none yet, selling, kept, race, unknown
	Known      bool   `json:"known"`
	Initial    int64  `json:"initial"`
	Written    int64  `json:"written"`
	Truth      int64  `json:"truth"` // initial less sold
	Sold       int64  `json:"sold"`
	Oversold   int64  `json:"oversold"`
	Lost       int64  `json:"lost"`       // units sold that the stock does not know of
	Collisions int    `json:"collisions"` // orders that read what another order had read
	Open       int    `json:"open"`       // requests without an answer
	Dropped    uint64 `json:"dropped"`    // steps that were lost on their way to the wall
}

// Verdict returns what is known of the run.
func (s *State) Verdict() Verdict {
	_, verdict := s.tokens()
	return verdict
}

func (s *State) tokens() (map[string]*token, Verdict) {
	tokens := make(map[string]*token, len(s.reqs))
	readers := make(map[version]int)
	var fences []string
	v := Verdict{}
	for id, r := range s.reqs {
		t := r.token(id)
		tokens[id] = t
		if t.Digits != "" {
			fences = append(fences, t.Digits)
		}
		if t.sold {
			readers[t.version]++
		}
		if r.answered == nil {
			v.Open++
		}
	}
	slices.SortFunc(fences, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	fences = slices.Compact(fences)
	for _, t := range tokens {
		if t.Digits != "" {
			t.Fence = 1 + slices.Index(fences, t.Digits)
		}
		t.Twin = t.sold && t.version.epoch > 0 && readers[t.version] > 1
	}
	for what, n := range readers {
		if what.epoch > 0 && n > 1 {
			v.Collisions += n - 1
		}
	}
	for _, g := range s.dropped[s.run] {
		v.Dropped += g.count
	}
	s.judge(&v)
	return tokens, v
}

// judge fills in what the store says. While it cannot be asked, the last that it said is shown.
func (s *State) judge(v *Verdict) {
	seen := s.stocks[s.run]
	for i := len(seen) - 1; i >= 0; i-- {
		if stock := seen[i].Stock; stock.Known {
			v.Initial, v.Written, v.Sold = stock.Initial, stock.Written, stock.Sold
			break
		}
	}
	v.Known = len(seen) > 0 && seen[len(seen)-1].Stock.Known
	v.Truth = v.Initial - v.Sold
	v.Oversold = max(0, v.Sold-v.Initial)
	v.Lost = v.Written + v.Sold - v.Initial
	over := s.latest[allFired].Run == s.run && v.Open == 0
	settled := len(seen) > 0 && s.latest[allFired].Seq < seen[len(seen)-1].Seq
	switch {
	case s.run == 0:
		v.Code = "idle"
	case v.Oversold > 0 || v.Lost != 0 && v.Known:
		v.Code = "race"
	case !over || !settled:
		v.Code = "selling"
	case !v.Known:
		v.Code = "unknown"
	default:
		v.Code = "kept"
	}
}
