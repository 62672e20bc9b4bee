package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Result is all that is known of one run.
type Result struct {
	Plan        Plan      `json:"plan"` // with its defaults filled in
	Target      string    `json:"target"`
	Run         string    `json:"run"`     // begins every request id
	Command     string    `json:"command"` // as in Header
	Strategy    Strategy  `json:"strategy"`
	StartedAt   time.Time `json:"started_at"`
	Interrupted bool      `json:"interrupted"` // it ended before all requests were sent
	Dropped     int       `json:"dropped"`     // as in End
	Warm        []Record  `json:"-"`           // of the warm-up, by Seq; in none of the figures
	Records     []Record  `json:"-"`           // by Seq
	Accounts    []Account `json:"accounts"`    // by SKU, in the order of Plan.Names
	Verdict     Verdict   `json:"verdict"`
	// SettledMS: for how long the target went on to tell of stock or orders what did not agree with the replies, and then did; 0: it agreed at once, or
	// it never did.
	SettledMS float64       `json:"settled_ms,omitempty"`
	Latency   Latency       `json:"latency"`
	Fairness  Fairness      `json:"fairness"`
	Warnings  []string      `json:"warnings,omitempty"`     // why the figures may mislead, a sentence each
	Expected  []Expectation `json:"expectations,omitempty"` // what was asked of the run; Expect fills it in
}

// judge computes what follows from the evidence.
func (r *Result) judge() {
	bySeq := func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) }
	slices.SortStableFunc(r.Warm, bySeq)
	slices.SortStableFunc(r.Records, bySeq)
	r.Verdict = Judge(r.evidence())
	r.Latency = Measure(r.Records)
	r.Fairness = FairnessOf(r)
	r.Warnings = r.warnings()
}

// evidence is what the run has left. Its records are sorted by Seq.
func (r *Result) evidence() Evidence {
	e := Evidence{Records: r.Records, Accounts: r.Accounts, Promise: r.Strategy.Promise, Shared: r.Plan.Shared}
	if n := len(r.Records); n > 0 {
		// Those of the warm-up come first, and those that were dropped have numbers, too.
		e.Missing = max(0, r.Records[n-1].Seq-highest(r.Warm)-n-r.Dropped)
	}
	return e
}

// lateShare is the share of late or dropped requests from which on an open loop was not what was asked for.
const lateShare = 0.01

func (r *Result) warnings() []string {
	var list []string
	if r.SettledMS > 0 {
		list = append(list, fmt.Sprintf("What the target told of stock and orders came right only %s after the first look: it tells late what it knows. "+
			"The verdict is about what it told then.", millis(r.SettledMS)))
	}
	if !r.Plan.Open() {
		return list
	}
	planned := len(r.Records) + r.Dropped
	percent := func(n int) float64 { return 100 * float64(n) / float64(max(planned, 1)) }
	if late := r.Latency.Late; float64(late) > lateShare*float64(planned) {
		list = append(list, fmt.Sprintf("The generator is the limit, not the service: it sent %d of %s (%.1f %%) more than %v late, by %s at most. "+
			"Latencies count from the planned time, so they include that. Lower --rate, or run it on a computer of its own.",
			late, plural(planned, "request"), percent(late), Late, millis(r.Latency.LongestLateMS)))
	}
	if r.Dropped > 0 {
		list = append(list, fmt.Sprintf("%d of %s (%.1f %%) were dropped: %d were under way already. The service cannot keep up with %s requests/s; "+
			"latencies are those of the requests that were sent. Lower --rate, or raise --max-in-flight.",
			r.Dropped, plural(planned, "request"), percent(r.Dropped), r.Plan.MaxInFlight, r.Plan.Rate))
	}
	return list
}
