package class

import "strconv"

// A caption says in words what the current run shows. It is derived from the State with each frame, so it cannot be
// older than what the page draws, and a recording has it, too.
type caption struct {
	Phase  string         `json:"phase"` // watch, done
	Key    string         `json:"key"`
	Values map[string]any `json:"values"`
}

// A tally has the counts of a run that are not in the verdict.
type tally struct {
	Wakes   int `json:"wakes"`   // waiters that the lock server has woken, counted when it wakes them
	Writes  int `json:"writes"`  // steps of the store that have sold: the sales of a batch share one
	Refused int `json:"refused"` // replies that are neither sold nor sold out
	Silent  int `json:"silent"`  // requests to which no reply will come
}

// add counts a request.
func (t *tally) add(r *request, batches map[string]bool) {
	t.Wakes += r.wakes()
	e := r.answered
	if e == nil {
		return
	}
	switch {
	case e.Outcome == "no_reply":
		t.Silent++
	case e.Outcome == accepted && e.Replayed, e.Outcome == "sold_out":
	case e.Outcome == accepted && e.Batch != "" && batches[e.Batch]: // a write of its batch was counted
	case e.Outcome == accepted:
		t.Writes++
		batches[e.Batch] = true
	default:
		t.Refused++
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

// caption returns the caption of the current run, or nil before the first. A scene has one for each of its stops: its
// course has seen what the caption says before it records the stop.
func (s *State) caption() *caption {
	if !s.has(runBegan) || s.judged() != nil {
		return nil
	}
	plan := s.plan()
	v, scene := s.Verdict(), plan.Scene
	c := &caption{Phase: "watch", Values: s.captionValues(&v)}
	settled := (v.Code == "kept" || v.Code == "race" || v.Code == "unknown") && s.sums().unanswered == 0 &&
		s.has(allFired) && !s.ofRun[rating].On
	if settled {
		c.Phase = "done"
	}
	at := s.ofRun[stopped]
	switch {
	case settled && v.Code == "unknown":
		c.Key = "unknown"
	case scene != "" && settled && (at.N < at.Of || !v.asPlanned(scene)):
		c.Key = "done_otherwise"
	case scene != "":
		c.Key = "stop_" + scene + "_" + strconv.Itoa(max(1, at.N))
	case settled:
		c.Key = "done_own_" + v.Code
	default:
		c.Key = "watch_own_" + plan.kind()
	}
	return c
}

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

// asPlanned reports whether a scene has ended with its point. It has not if somebody has done something by hand
// meanwhile, or a busy computer has refused a request.
func (v *WallVerdict) asPlanned(name string) bool {
	one, known := sceneOf(name)
	return known && v.Sold == one.sales && (v.Code == "race") == one.race
}

func (s *State) captionValues(v *WallVerdict) map[string]any {
	all := s.sums()
	return map[string]any{
		"sold": v.Sold, "left": v.Written, "lost": v.Lost, "true": v.Truth, "waiting": all.waiting,
		"inside": all.inside, "wakes": all.Wakes, "writes": all.Writes, "renewals": s.renewals(),
	}
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

// seen returns the token of a request of this run by its number; the zero token if there is none.
func (s *State) seen(number int) token {
	if r := s.reqs[nameOf(s.run, number)]; r != nil {
		return *r.seen
	}
	return token{}
}
