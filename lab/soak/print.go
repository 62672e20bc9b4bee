package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"example.com/stock/loadtest"
)

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
	writeLanes(w, r)
	writeProblems(w, r)
	writeHealth(w, r)
	violations := r.Violations()
	if len(violations) == 0 {
		fmt.Fprintf(w, "\nHOLDS: nothing oversold, nothing lost, no order without a deduction, no deduction without an order (seed %d)\n", r.Seed)
		return
	}
	fmt.Fprintf(w, "\nVIOLATED (seed %d):\n", r.Seed)
	for _, text := range violations {
		fmt.Fprintf(w, "  %s\n", text)
	}
}

// writeFaults counts by kind and target; the links of an instance count as one target.
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
	fmt.Fprintf(w, "\n%d faults in %v, %v in all\n", len(r.Injected), duration(r.SoldMS).Round(time.Second), duration(r.TookMS).Round(time.Second))
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

func writeLanes(w io.Writer, r *Report) {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "strategy\tstore\tSKUs\taccepted\tbusy\tsold out\tfailed\tunknown\tof which sold\tunits\toversold\tlost\tnot deducted\tnot ordered\tchain breaks\t")
	var sum Lane
	sum.Outcomes = make(map[loadtest.Outcome]int)
	for _, l := range r.Lanes {
		writeLane(table, &l)
		sum.SKUs += l.SKUs
		for o, n := range l.Outcomes {
			sum.Outcomes[o] += n
		}
		sum.Found += l.Found
		sum.SoldUnits += l.SoldUnits
		sum.OversoldUnits += l.OversoldUnits
		sum.Lost += l.Lost
		sum.NotDeducted += l.NotDeducted
		sum.NotOrdered += l.NotOrdered
		sum.Breaks += l.Breaks
	}
	sum.Strategy = "all"
	writeLane(table, &sum)
	_ = table.Flush()
}

func writeLane(w io.Writer, l *Lane) {
	fmt.Fprintf(w, "%s\t%s\t%d\t", l.Strategy, l.Store, l.SKUs)
	for _, o := range loadtest.Outcomes() {
		fmt.Fprintf(w, "%d\t", l.Outcomes[o])
	}
	fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", l.Found, l.SoldUnits, l.OversoldUnits, l.Lost, l.NotDeducted, l.NotOrdered, l.Breaks)
}

// writeProblems says why requests failed, or nobody knows what became of them.
func writeProblems(w io.Writer, r *Report) {
	sum := make(map[string]int)
	for _, l := range r.Lanes {
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
