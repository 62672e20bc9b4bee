package class

// A caption says in words what the current run shows. It is derived from the State with each frame, so it cannot be
// older than what the page draws, and a recording has it, too.
type caption struct {
	Phase  string         `json:"phase"` // before, watch, done
	Key    string         `json:"key"`
	Why    string         `json:"why,omitempty"` // in phase done
	Values map[string]any `json:"values"`
}

// A tally has the counts of a run that are not in the verdict.
type tally struct {
	Wakes   int `json:"wakes"`   // waiters that the lock server has woken, counted when it wakes them
	Writes  int `json:"writes"`  // steps of the store that have sold: the sales of a batch share one
	Refused int `json:"refused"` // replies that are neither sold nor sold out
	Silent  int `json:"silent"`  // requests to which no reply will come
	Late    int `json:"late"`    // of them: writes refused because a later holder had written, or the lease was lost
	SoldOut int `json:"sold_out"`
}

// add adds a reply to the tally, or with sign -1 removes it.
func (s *State) tallyReply(r *request, sign int) {
	s.tally.Wakes += sign * r.wakes()
	e := r.answered
	if e == nil {
		return
	}
	t := &s.tally
	switch {
	case e.Outcome == "no_reply":
		t.Silent += sign
	case e.Outcome == accepted && e.Replayed:
	case e.Outcome == accepted && e.Batch == "":
		t.Writes += sign
	case e.Outcome == accepted:
		if sign > 0 && s.batches[e.Batch] == 0 || sign < 0 && s.batches[e.Batch] == 1 {
			t.Writes += sign
		}
		s.batches[e.Batch] += sign
	case e.Outcome == "sold_out":
		t.SoldOut += sign
	default:
		t.Refused += sign
		if e.Outcome == "stale_fence" || e.Outcome == "lock_lost" || e.Outcome == "overtaken" {
			t.Late += sign
		}
	}
}

// wakes returns how often the lock server has woken a request: by the steps, which come when it does, or by the reply,
// if steps were lost.
func (r *request) wakes() (n int) {
	for _, e := range r.steps {
		if e.Kind == "woken" {
			n++
		}
	}
	if r.answered != nil {
		n = max(n, r.answered.Wakes)
	}
	return n
}

// raceExpected names the scenes that end with lost updates or an oversold stock.
func raceExpected(scene string) bool {
	switch scene {
	case "no_lock", "two_buyers", "mutex_three", "frozen_unfenced":
		return true
	}
	return false
}

// caption returns the caption of the current run, or nil before the first.
func (s *State) caption() *caption {
	began, ok := s.plans[s.run]
	if !ok || began.Plan == nil || s.judged() != nil {
		return nil
	}
	v, scene := s.Verdict(), began.Plan.Scene
	c := &caption{Phase: "watch", Values: s.captionValues(&v)}
	name := scene
	if name == "" {
		name = "own_" + began.Plan.kind()
	}
	settled := (v.Code == "kept" || v.Code == "race" || v.Code == "unknown") && s.unanswered == 0 &&
		s.latest[allFired].Run == s.run && !s.rated()
	switch {
	case len(s.reqs) == 0:
		c.Phase, c.Key = "before", "before_"+name
	case !settled:
		c.Key = "watch_" + name + s.moment(scene)
	case v.Code == "unknown":
		c.Phase, c.Key = "done", "unknown"
	case scene == "":
		c.Phase, c.Key, c.Why = "done", "done_own_"+v.Code, "why_"+name
	case !s.asPlanned(scene, &v):
		c.Phase, c.Key, c.Why = "done", "done_otherwise", "why_otherwise"
	default:
		c.Phase, c.Key, c.Why = "done", "done_"+scene, "why_"+scene
	}
	return c
}

// rated reports whether requests still come at a rate.
func (s *State) rated() bool { e := s.latest[rating]; return e.Run == s.run && e.On }

// kind tells strategies apart by what a class sees: a queue, a queue in each instance, or none.
func (p *RunPlan) kind() string {
	switch {
	case p.Exclusive && p.Scope == "cluster":
		return "locked"
	case p.Scope == "cluster":
		return "free"
	case p.Scope == "process":
		return "process"
	}
	return "none"
}

// asPlanned reports whether a scene has shown its point.
func (s *State) asPlanned(scene string, v *WallVerdict) bool {
	switch scene {
	case "frozen_fenced":
		return v.Code == "kept" && s.tally.Late > 0
	case "same_key":
		return v.Code == "kept" && v.Sold == 2
	case "merged":
		return v.Code == "kept" && s.tally.Writes < int(v.Sold)
	case "herd":
		return v.Code == "kept" && s.tally.Wakes > int(v.Sold)
	}
	return (v.Code == "race") == raceExpected(scene)
}

func (s *State) captionValues(v *WallVerdict) map[string]any {
	waiting, inside := 0, 0
	for _, r := range s.open {
		switch r.seen.Phase {
		case "waits", "sent":
			waiting++
		default:
			inside++
		}
	}
	values := map[string]any{
		"sold": v.Sold, "left": v.Written, "lost": v.Lost, "over": v.Oversold, "of": v.Initial, "true": v.Truth,
		"waiting": waiting, "inside": inside, "wakes": s.tally.Wakes, "writes": s.tally.Writes,
		"refused": s.tally.Refused, "sold_out": s.tally.SoldOut, "requests": len(s.reqs), "renewals": s.renewals(),
	}
	return values
}

// renewals counts the renewals of all leases of the run.
func (s *State) renewals() (n int) {
	for _, e := range s.leases {
		if e.Kind == leased && e.On {
			n++
		}
	}
	return n
}

// moment returns the suffix of the caption for the present moment of a scene, or "" for its general one.
func (s *State) moment(scene string) string {
	switch scene {
	case "two_buyers":
		return s.momentOfTwo()
	case "frozen_fenced", "frozen_unfenced":
		return s.momentOfFrozen()
	case "killed_holder":
		held := s.leasesByApp()["app-1"]
		switch dead := s.standing("app-1") != "up" || s.seen(1).Outcome == "no_reply"; {
		case dead && held != nil && held.Over > 0:
			return "_next"
		case dead:
			return "_dead"
		}
	case "redis_dies":
		switch state := s.standing("redis"); {
		case state == "killed":
			return "_dead"
		case state == "starting":
			return "_starting"
		case len(s.bands(s.faults["redis"])) > 0:
			return "_back"
		}
	case "same_key":
		if n := s.last; n > 1 {
			return map[int]string{2: "_again", 3: "_other"}[n]
		}
	}
	return ""
}

// standing returns the state of a server.
func (s *State) standing(server string) string {
	if list := s.faults[server]; len(list) > 0 {
		return list[len(list)-1].State
	}
	return "up"
}

// seen returns the token of a request of this run by its number; the zero token if there is none.
func (s *State) seen(number int) token {
	if r := s.reqs[nameOf(s.run, number)]; r != nil {
		return *r.seen
	}
	return token{}
}

func (s *State) momentOfTwo() string {
	a, b := s.seen(1), s.seen(2)
	switch {
	case a.Phase == "done" && b.Point == "":
		return "_b_writes"
	case a.Phase == "done":
		return "_a_wrote"
	case a.Point != "" && b.Point != "":
		return "_both_read"
	}
	return ""
}

func (s *State) momentOfFrozen() string {
	b, frozen := s.seen(2), s.standing("app-1") == "frozen"
	switch {
	case b.Phase == "done" && frozen:
		return "_b_sold"
	case b.Phase == "done":
		return "_awake"
	case b.Phase != "":
		return "_over"
	case frozen:
		return "_frozen"
	}
	return ""
}
