package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// label is the width of the left column of a report.
const label = 12

// WriteReport writes all about one run, for people.
func WriteReport(w io.Writer, r *Result, style Style) error {
	p, v := &r.Plan, &r.Verdict
	var b strings.Builder
	heading := fmt.Sprintf("%s on %s: %s of %s, %s, %s, target %s",
		p.Strategy, whose(p), requests(r), p.Units(), p.Load(), p.Goods(), r.Target)
	b.WriteString(style.wrap(heading, 2) + "\n\n")
	line := func(name, format string, args ...any) {
		b.WriteString("  " + style.pad(faint, name, label, false) + style.wrap(fmt.Sprintf(format, args...), label+2) + "\n")
	}
	line("replies", "accepted %d, busy %d, sold out %d, failed %d, unknown %d", v.Accepted, v.Busy, v.SoldOut, v.Failed, v.Unknown)
	if v.Recovered > 0 {
		line("", "%d of the accepted had no usable reply; their orders were found in the store", v.Recovered)
	}
	for _, text := range FailureSorts(r.Records, 3) {
		line("", "%s", text)
	}
	if v.Known {
		line("stock", "%d at first, %d sold, %d remaining", v.InitialUnits, v.AcceptedUnits, v.RemainingUnits)
		line("damage", "oversold %d, lost updates %d, collisions %d", v.OversoldUnits, v.LostUnits, v.Collisions)
	} else {
		line("stock", "%d at first, %d sold, remaining not known", v.InitialUnits, v.AcceptedUnits)
		line("damage", "oversold %d, lost updates not known, collisions %d", v.OversoldUnits, v.Collisions)
	}
	if v.Foreign > 0 {
		line("", "%d orders are not of this run: others sold from the same SKU, and are counted in", v.Foreign)
	}
	if v.Overlaps > 0 {
		line("holds", "%d overlap, by %s at most; by the instances' clocks, after the release was answered: no proof",
			v.Overlaps, millis(v.LongestOverlapMS))
	}
	if v.Linear.Result != "" {
		line("in time", "%s", v.Linear.Sentence())
	}
	line("rate", "%.0f units sold per second until the last was sold; %.0f requests/s in %.2f s",
		r.Latency.Sold, r.Latency.Rate, r.Latency.Seconds)
	writeInstances(line, r.Latency.Instances, v.Sent)
	b.WriteByte('\n')
	writeLatency(&b, &r.Latency, style)
	writeWarnings(&b, r, style)

	word, t := v.word()
	b.WriteString("\n  " + style.pad(faint, "verdict", label, false) + style.paint(t, strings.ToUpper(word)))
	if v.Finding == Holds {
		fmt.Fprintf(&b, ": %d = %d remaining + %d sold", v.InitialUnits, v.RemainingUnits, v.AcceptedUnits)
		if len(v.Limits) == 0 {
			b.WriteString(", and no two orders read the same version")
		}
	}
	b.WriteByte('\n')
	for _, reason := range v.Reasons {
		b.WriteString(strings.Repeat(" ", label+2) + "- " + style.wrap(reason.Text, label+4) + "\n")
	}
	_, t = v.promised()
	b.WriteString("  " + style.pad(faint, "promise", label, false) + style.paint(t, style.wrap(v.Sentence, label+2)) + "\n")
	for _, limit := range v.Limits {
		line("not told", "%s", limit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// whose is where the stock of p is.
func whose(p *Plan) string {
	if p.Mapping != "" {
		return "somebody else's service"
	}
	return store(p.Store)
}

func store(name string) string {
	if name == "" {
		return "the default store"
	}
	return name
}

func requests(r *Result) string {
	switch {
	case r.Interrupted && r.Plan.Requests > 0:
		return fmt.Sprintf("interrupted after %d of %s", len(r.Records), plural(r.Plan.Requests, "request"))
	case r.Interrupted:
		return fmt.Sprintf("interrupted after %s", plural(len(r.Records), "request"))
	}
	return plural(r.Verdict.Sent, "request")
}

// FailureSorts says of each sort of failure how often it occurred, the first to come first: the count alone helps nobody. Of more than
// most sorts the rest are counted in the last line.
func FailureSorts(records []Record, most int) []string {
	seen := make(map[string]int)
	var order []string
	for i := range records {
		r := &records[i]
		if r.Outcome != Failed && r.Outcome != Unknown {
			continue
		}
		sort := fmt.Sprintf("%s %s", r.Problem, r.Error)
		if seen[sort] == 0 {
			order = append(order, sort)
		}
		seen[sort]++
	}
	var lines []string
	for i, sort := range order {
		if i == most {
			return append(lines, fmt.Sprintf("... and %d more sorts of failure", len(order)-i))
		}
		lines = append(lines, fmt.Sprintf("%d x %s", seen[sort], strings.TrimSpace(sort)))
	}
	return lines
}

func writeInstances(line func(string, string, ...any), shares []Share, sent int) {
	var parts []string
	for _, s := range shares {
		name := s.Instance
		if name == "" {
			name = "none named"
		}
		parts = append(parts, fmt.Sprintf("%s %.0f %% (%d accepted)", name, 100*float64(s.Replies)/float64(max(sent, 1)), s.Accepted))
	}
	if len(parts) > 0 {
		line("instances", "%s", strings.Join(parts, ", "))
	}
}

func writeLatency(b *strings.Builder, l *Latency, style Style) {
	row := func(t tone, name string, cells ...string) {
		b.WriteString("  " + style.pad(t, name, label, false))
		for _, cell := range cells {
			b.WriteString(style.pad(t, cell, 9, true))
		}
		b.WriteByte('\n')
	}
	quantiles := func(name string, q Quantiles) {
		row(plain, name, fmt.Sprint(q.Count), millis(q.P50), millis(q.P90), millis(q.P95), millis(q.P99), millis(q.P999), millis(q.Max))
	}
	row(faint, "latency", "replies", "p50", "p90", "p95", "p99", "p99.9", "max")
	quantiles("all", l.All)
	if l.Service != nil {
		quantiles("since sent", *l.Service)
	}
	for _, outcome := range Outcomes() {
		if q, ok := l.ByOutcome[outcome]; ok && len(l.ByOutcome) > 1 {
			quantiles(strings.ReplaceAll(string(outcome), "_", " "), q)
		}
	}
}

// ReportFormat and ReportVersion are in every JSON report.
const (
	ReportFormat  = "stock-load-report"
	ReportVersion = 2
)

// A Report is what WriteJSON writes: all of the runs but the single requests, which are in their histories.
type Report struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Runs    []*Result `json:"runs"`
}

// WriteJSON writes the runs for programs.
func WriteJSON(w io.Writer, results []*Result) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(Report{ReportFormat, ReportVersion, results})
}
