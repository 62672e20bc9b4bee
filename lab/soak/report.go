package soak

import (
	"fmt"
	"time"

	"example.com/stock/loadtest"
)

// Version grows when a reader of the last report would misread the new one.
const Version = 1

// A Report is what a soak did and found.
type Report struct {
	Version     int        `json:"version"`
	Seed        uint64     `json:"seed"`
	ForMS       float64    `json:"for_ms"`
	Instances   int        `json:"instances"`
	StartedAt   time.Time  `json:"started_at"`
	SoldMS      float64    `json:"sold_ms"` // how long the sale went on
	TookMS      float64    `json:"took_ms"`
	Interrupted bool       `json:"interrupted"`
	Injected    []Injected `json:"injected"` // in the order in which they ended
	Recovered   int        `json:"recovered"`
	LongestMS   float64    `json:"longest_recovery_ms"` // of the Recovered times that everything was healthy before the next fault
	Health      Health     `json:"health"`
	Lanes       []Lane     `json:"lanes"`
	LeftOut     []LeftOut  `json:"left_out"`
}

// Injected is a fault that was done.
type Injected struct {
	Kind      Kind    `json:"kind"`
	Target    string  `json:"target"`
	Text      string  `json:"text"`
	PastLease bool    `json:"past_lease,omitempty"` // an instance was paused for longer than its locks last
	AtMS      float64 `json:"at_ms"`
	TookMS    float64 `json:"took_ms"` // until it was undone and, of a process, served again
	Error     string  `json:"error,omitempty"`
}

// Health is how soon after the last fault everything was well.
type Health struct {
	LimitMS float64  `json:"limit_ms"`
	AfterMS float64  `json:"after_ms"`
	Last    string   `json:"last,omitempty"`    // what was missing until then
	Missing []string `json:"missing,omitempty"` // what never was there
}

// OK reports whether it was soon enough.
func (h Health) OK() bool { return len(h.Missing) == 0 && h.AfterMS <= h.LimitMS }

// LeftOut is a strategy whose promise does not cover what was done.
type LeftOut struct {
	Strategy string `json:"strategy"`
	Why      string `json:"why"`
}

// A Lane is what became of one strategy on one store. Sums are over all its SKUs.
type Lane struct {
	Strategy string                   `json:"strategy"`
	Store    string                   `json:"store"`
	SKUs     int                      `json:"skus"`
	Outcomes map[loadtest.Outcome]int `json:"outcomes"` // of the replies
	Problems map[string]int           `json:"problems"` // failed and unknown, by what was answered
	Found    int                      `json:"found"`    // unknown outcomes whose orders are in the store

	InitialUnits   int64 `json:"initial_units"`
	SoldUnits      int64 `json:"sold_units"`
	RemainingUnits int64 `json:"remaining_units"`

	OversoldUnits int64    `json:"oversold_units"`
	Lost          int      `json:"lost"`               // requests that were accepted, and there is no order
	NotDeducted   int64    `json:"not_deducted_units"` // ordered, and not taken off the stock
	NotOrdered    int64    `json:"not_ordered_units"`  // taken off the stock, and not ordered
	Breaks        int      `json:"breaks"`             // orders that did not read what the order before them left
	Broken        []string `json:"broken"`             // why, in words
}

func newLane(l *lane) Lane {
	return Lane{Strategy: l.Name, Store: l.store, Outcomes: make(map[loadtest.Outcome]int), Problems: make(map[string]int), Broken: []string{}}
}

// add books what package loadtest says of one SKU.
func (l *Lane) add(s *shelf, v loadtest.Verdict) {
	l.SKUs++
	for _, r := range s.records {
		l.Outcomes[r.Outcome]++
		if r.Outcome == loadtest.Failed || r.Outcome == loadtest.Unknown {
			l.Problems[r.Problem]++
		}
	}
	l.Found += v.Recovered
	l.InitialUnits += v.InitialUnits
	l.SoldUnits += v.AcceptedUnits
	l.RemainingUnits += v.RemainingUnits
	l.OversoldUnits += v.OversoldUnits
	l.Lost += v.Phantoms
	l.NotDeducted += max(0, v.LostUnits)
	l.NotOrdered += max(0, -v.LostUnits)
	l.Breaks += v.Collisions + v.StaleReads
	for _, reason := range v.Reasons {
		l.Broken = append(l.Broken, fmt.Sprintf("%s: %s", s.before.SKU, reason.Text))
	}
	if v.Finding != loadtest.Holds && len(v.Reasons) == 0 {
		l.Broken = append(l.Broken, s.before.SKU+": "+v.Sentence)
	}
}

// Violations are what must not be, in words. None: the soak is passed.
func (r *Report) Violations() []string {
	var list []string
	for _, l := range r.Lanes {
		for _, text := range l.Broken {
			list = append(list, fmt.Sprintf("%s on %s: %s", l.Strategy, l.Store, text))
		}
	}
	for _, f := range r.Injected {
		if f.Error != "" {
			list = append(list, fmt.Sprintf("%s: %s", f.Text, f.Error))
		}
	}
	for _, text := range r.Health.Missing {
		list = append(list, text+", long after the last fault")
	}
	if len(r.Health.Missing) == 0 && !r.Health.OK() {
		list = append(list, fmt.Sprintf("healthy only %v after the last fault", duration(r.Health.AfterMS)))
	}
	return list
}

func duration(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}
