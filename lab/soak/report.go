package soak

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
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
	// the longest of the Recovered times from the end of a fault to full health
	LongestMS float64   `json:"longest_recovery_ms"`
	Health    Health    `json:"health"`
	Results   []Result  `json:"lanes"`
	LeftOut   []LeftOut `json:"left_out"`
}

// Injected is a fault that was carried out.
type Injected struct {
	Kind      Kind    `json:"kind"`
	Target    string  `json:"target"`
	Text      string  `json:"text"`
	PastLease bool    `json:"past_lease,omitempty"` // an instance was paused for longer than its leases
	AtMS      float64 `json:"at_ms"`
	TookMS    float64 `json:"took_ms"` // until it was undone and, of a process, served again
	Error     string  `json:"error,omitempty"`
}

// Health is how soon after the last fault everything worked again.
type Health struct {
	LimitMS float64  `json:"limit_ms"`
	AfterMS float64  `json:"after_ms"`
	Last    string   `json:"last,omitempty"`    // what was missing last
	Missing []string `json:"missing,omitempty"` // what is still missing
}

// OK reports whether everything worked again in time.
func (h Health) OK() bool { return len(h.Missing) == 0 && h.AfterMS <= h.LimitMS }

// LeftOut is a strategy whose promise does not cover the soak.
type LeftOut struct {
	Strategy string `json:"strategy"`
	Why      string `json:"why"`
}

// A Result is the result of one strategy on one store. Sums are over all its SKUs.
type Result struct {
	Strategy string                   `json:"strategy"`
	Store    string                   `json:"store"`
	SKUs     int                      `json:"skus"`
	Outcomes map[loadtest.Outcome]int `json:"outcomes"` // of the replies
	Problems map[string]int           `json:"problems"` // failed and unknown, by what was answered
	Found    int                      `json:"found"`    // unknown outcomes whose orders are in the store
	Merged   int                      `json:"merged"`   // sales that were made in a batch with others

	InitialUnits   int64 `json:"initial_units"`
	SoldUnits      int64 `json:"sold_units"`
	RemainingUnits int64 `json:"remaining_units"`

	OversoldUnits int64    `json:"oversold_units"`
	Lost          int      `json:"lost"`               // accepted requests without an order
	NotDeducted   int64    `json:"not_deducted_units"` // ordered, but not taken off the stock
	NotOrdered    int64    `json:"not_ordered_units"`  // taken off the stock, but not ordered
	Breaks        int      `json:"breaks"`             // orders that did not read what the order before them left
	Broken        []string `json:"broken"`             // why, in words
}

func newResult(l *subject) Result {
	return Result{
		Strategy: l.Name,
		Store:    l.store,
		Outcomes: make(map[loadtest.Outcome]int),
		Problems: make(map[string]int),
		Broken:   []string{},
	}
}

// add adds the verdict of package loadtest on one SKU.
func (l *Result) add(s *item, v loadtest.Verdict) {
	l.SKUs++
	for _, r := range s.records {
		l.Outcomes[r.Outcome]++
		if r.Outcome == loadtest.Failed || r.Outcome == loadtest.Unknown {
			l.Problems[why(r.Reply)]++
		}
		if r.Receipt != nil && r.Batch != nil && r.Batch.Size > 1 {
			l.Merged++
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

// Violations describes each violation of the invariant. If there are none, the soak has passed.
func (r *Report) Violations() []string {
	var list []string
	for _, l := range r.Results {
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

// WritePlan writes the steps, one line each.
func WritePlan(w io.Writer, plan []Step) {
	for i, step := range plan {
		fmt.Fprintf(w, "%4d  %s\n", i+1, step)
	}
}

// Write writes a report for people.
func Write(w io.Writer, r *Report) {
	for _, l := range r.LeftOut {
		fmt.Fprintf(w, "left out: %s: %s\n", l.Strategy, l.Why)
	}
	writeFaults(w, r)
	writeResults(w, r)
	writeProblems(w, r)
	writeHealth(w, r)
	violations := r.Violations()
	if len(violations) == 0 {
		fmt.Fprintf(w, "\nHOLDS: nothing oversold, nothing lost, no order without a deduction, "+
			"no deduction without an order (seed %d)\n", r.Seed)
		return
	}
	fmt.Fprintf(w, "\nVIOLATED (seed %d):\n", r.Seed)
	for _, text := range violations {
		fmt.Fprintf(w, "  %s\n", text)
	}
}

// writeFaults writes the number of faults by kind and target.
func writeFaults(w io.Writer, r *Report) {
	counts, past := make(map[Kind]map[string]int), 0
	for _, f := range r.Injected {
		if counts[f.Kind] == nil {
			counts[f.Kind] = make(map[string]int)
		}
		counts[f.Kind][f.Target]++
		if f.PastLease {
			past++
		}
	}
	fmt.Fprintf(w, "\n%d faults in %v, %v in all\n", len(r.Injected), duration(r.SoldMS).Round(time.Second),
		duration(r.TookMS).Round(time.Second))
	for _, kind := range Kinds() {
		total := 0
		var parts []string
		for _, target := range slices.Sorted(maps.Keys(counts[kind])) {
			total += counts[kind][target]
			parts = append(parts, fmt.Sprintf("%s %d", target, counts[kind][target]))
		}
		fmt.Fprintf(w, "  %-8s %3d  %s\n", kind, total, strings.Join(parts, ", "))
	}
	fmt.Fprintf(w, "  instances paused for longer than their locks last (%v): %d\n", lease, past)
}

func writeResults(w io.Writer, r *Report) {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "strategy\tstore\tSKUs\taccepted\tmerged\tbusy\tsold out\tfailed\tunknown\tof which sold\t"+
		"units\toversold\tlost\tnot deducted\tnot ordered\tchain breaks\t")
	var sum Result
	sum.Outcomes = make(map[loadtest.Outcome]int)
	for _, l := range r.Results {
		writeResult(table, &l)
		sum.SKUs += l.SKUs
		for o, n := range l.Outcomes {
			sum.Outcomes[o] += n
		}
		sum.Found += l.Found
		sum.Merged += l.Merged
		sum.SoldUnits += l.SoldUnits
		sum.OversoldUnits += l.OversoldUnits
		sum.Lost += l.Lost
		sum.NotDeducted += l.NotDeducted
		sum.NotOrdered += l.NotOrdered
		sum.Breaks += l.Breaks
	}
	sum.Strategy = "all"
	writeResult(table, &sum)
	_ = table.Flush()
}

func writeResult(w io.Writer, l *Result) {
	fmt.Fprintf(w, "%s\t%s\t%d\t", l.Strategy, l.Store, l.SKUs)
	for _, o := range loadtest.Outcomes() {
		fmt.Fprintf(w, "%d\t", l.Outcomes[o])
		if o == loadtest.Accepted {
			fmt.Fprintf(w, "%d\t", l.Merged)
		}
	}
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", l.Found, l.SoldUnits, l.OversoldUnits, l.Lost, l.NotDeducted,
		l.NotOrdered, l.Breaks)
}

// why is the problem that a reply names. Of a reply that names none it is what the client says, without the message of
// the network or of the parser, which hardly two have in common.
func why(r loadtest.Reply) string {
	said, _, _ := strings.Cut(r.Error, ": ")
	return cmp.Or(r.Problem, said)
}

// writeProblems writes why requests failed or have an unknown outcome.
func writeProblems(w io.Writer, r *Report) {
	sum := make(map[string]int)
	for _, l := range r.Results {
		for name, n := range l.Problems {
			sum[name] += n
		}
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, sum[name]))
	}
	fmt.Fprintf(w, "\nfailed and unknown, by what was answered: %s\n", strings.Join(parts, ", "))
}

func writeHealth(w io.Writer, r *Report) {
	h := r.Health
	if len(h.Missing) > 0 {
		fmt.Fprintf(w, "not healthy %v after the last fault: %s\n", duration(h.AfterMS), strings.Join(h.Missing, "; "))
	} else {
		fmt.Fprintf(w, "healthy %v after the last fault (limit %v)", duration(h.AfterMS), duration(h.LimitMS))
		if h.Last != "" {
			fmt.Fprintf(w, "; until then: %s", h.Last)
		}
		fmt.Fprintf(w, "; %d times before the next one, at the latest after %v\n", r.Recovered, duration(r.LongestMS))
	}
}
