package soak

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// Version increases when readers of the previous version would misread a report.
const Version = 1

// A Report has the faults and the findings of a soak.
type Report struct {
	Version     int        `json:"version"`
	Seed        uint64     `json:"seed"`
	ForMS       float64    `json:"for_ms"`
	StartedAt   time.Time  `json:"started_at"`
	SoldMS      float64    `json:"sold_ms"` // duration of the sale
	TookMS      float64    `json:"took_ms"`
	Interrupted bool       `json:"interrupted"`
	Injected    []Injected `json:"injected"` // in order of their ends
	Recovered   int        `json:"recovered"`
	// the longest of the Recovered times from the end of a fault to full health
	LongestMS float64   `json:"longest_recovery_ms"`
	Health    Health    `json:"health"`
	Results   []Result  `json:"lanes"`
	Checkout  Checkout  `json:"checkout"`
	LeftOut   []LeftOut `json:"left_out"`
}

// Injected is a fault that was carried out.
type Injected struct {
	Kind      Kind       `json:"kind"`
	Target    string     `json:"target"`
	Text      words.Text `json:"text"`
	PastLease bool       `json:"past_lease,omitempty"` // an instance was frozen for longer than its leases
	AtMS      float64    `json:"at_ms"`
	TookMS    float64    `json:"took_ms"` // until the fault was undone; for a process, until it served again
	Error     string     `json:"error,omitempty"`
}

// Health tells how soon after the last fault everything worked again.
type Health struct {
	LimitMS float64      `json:"limit_ms"`
	AfterMS float64      `json:"after_ms"`
	Last    words.Text   `json:"last,omitzero"`     // what recovered last
	Missing []words.Text `json:"missing,omitempty"` // what has not recovered
}

// OK reports whether everything worked again in time.
func (h Health) OK() bool { return len(h.Missing) == 0 && h.AfterMS <= h.LimitMS }

// LeftOut is a strategy whose promise does not cover the soak.
type LeftOut struct {
	Strategy string     `json:"strategy"`
	Why      words.Text `json:"why"`
}

// A Result is the result of one strategy on one store. Sums are over all its SKUs.
type Result struct {
	Strategy string                   `json:"strategy"`
	Store    string                   `json:"store"`
	SKUs     int                      `json:"skus"`
	Outcomes map[loadtest.Outcome]int `json:"outcomes"` // of the replies
	Problems map[string]int           `json:"problems"` // failed and unknown requests, by the reply
	Found    int                      `json:"found"`    // unknown outcomes whose orders are in the store
	Merged   int                      `json:"merged"`   // sales that were made in a batch with others

	InitialUnits   int64 `json:"initial_units"`
	SoldUnits      int64 `json:"sold_units"`
	RemainingUnits int64 `json:"remaining_units"`

	OversoldUnits int64        `json:"oversold_units"`
	Lost          int          `json:"lost"`               // accepted requests without an order
	NotDeducted   int64        `json:"not_deducted_units"` // ordered, but not deducted
	NotOrdered    int64        `json:"not_ordered_units"`  // deducted, but not ordered
	Breaks        int          `json:"breaks"`             // orders that did not read what the previous order left
	Broken        []words.Text `json:"broken"`             // what is wrong, in words
}

func newResult(strategy, store string) Result {
	return Result{
		Strategy: strategy,
		Store:    store,
		Outcomes: make(map[loadtest.Outcome]int),
		Problems: make(map[string]int),
		Broken:   []words.Text{},
	}
}

// add adds the sale of one SKU, and returns what is wrong with it.
func (l *Result) add(turn *loadtest.Result) (wrong []words.Text) {
	v := &turn.Verdict
	for i := range turn.Records {
		r := &turn.Records[i]
		l.Outcomes[r.Outcome]++
		if r.Outcome == loadtest.Failed || r.Outcome == loadtest.Unknown {
			l.Problems[why(r.Reply)]++
		}
		if r.Receipt != nil && r.Batch != nil && r.Batch.Size > 1 {
			l.Merged++
		}
	}
	if untouched(turn) {
		return nil
	}
	l.SKUs++
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
		wrong = append(wrong, say("violation.item", "sku", turn.Plan.SKU, "why", reason.Text))
	}
	if v.Finding != loadtest.Holds && len(v.Reasons) == 0 {
		wrong = append(wrong, say("violation.item", "sku", turn.Plan.SKU, "why", v.Sentence))
	}
	l.Broken = append(l.Broken, wrong...)
	return wrong
}

// untouched reports whether no unit of a SKU was sold and its stock is unchanged. Then there is nothing to judge.
func untouched(turn *loadtest.Result) bool {
	for i := range turn.Records {
		if o := turn.Records[i].Outcome; o == loadtest.Accepted || o == loadtest.SoldOut {
			return false
		}
	}
	for _, a := range turn.Accounts {
		if a.After == nil || len(a.Orders) > 0 || a.After.Quantity != a.Before.Quantity ||
			a.After.Version != a.Before.Version || a.After.Epoch != a.Before.Epoch {
			return false
		}
	}
	return true
}

// Violations describes each violation of the invariant. If there are none, the soak has passed.
func (r *Report) Violations() []words.Text {
	var list []words.Text
	for _, l := range r.Results {
		for _, text := range l.Broken {
			list = append(list, say("violation.strategy", "strategy", l.Strategy, "store", l.Store, "why", text))
		}
	}
	list = append(list, r.Checkout.violations()...)
	for _, f := range r.Injected {
		if f.Error != "" {
			list = append(list, say("violation.fault", "fault", f.Text, "why", f.Error))
		}
	}
	for _, text := range r.Health.Missing {
		list = append(list, say("violation.missing", "missing", text))
	}
	if len(r.Health.Missing) == 0 && !r.Health.OK() {
		list = append(list, say("violation.late", "time", duration(r.Health.AfterMS)))
	}
	return list
}

// A Writer writes for people, in one language: "en" or "zh".
type Writer struct {
	io.Writer
	Lang string
}

func (w Writer) line(key string, pairs ...any) { fmt.Fprintln(w, say(key, pairs...).In(w.Lang)) }

// Plan writes the steps, one line each.
func (w Writer) Plan(plan []Step) {
	for i, step := range plan {
		fmt.Fprintf(w, "%4d  %s\n", i+1, step.Said().In(w.Lang))
	}
}

// Report writes a report.
func (w Writer) Report(r *Report) {
	for _, l := range r.LeftOut {
		w.line("report.left-out", "strategy", l.Strategy, "why", l.Why)
	}
	w.faults(r)
	w.results(r)
	w.problems(r)
	fmt.Fprintln(w, r.Checkout.said().In(w.Lang))
	w.health(r)
	fmt.Fprintln(w)
	violations := r.Violations()
	if len(violations) == 0 {
		w.line("report.holds", "seed", r.Seed)
		return
	}
	w.line("report.violated", "seed", r.Seed)
	w.list(violations)
}

func (w Writer) list(texts []words.Text) {
	for _, text := range texts {
		fmt.Fprintf(w, "  %s\n", text.In(w.Lang))
	}
}

// faults writes the number of faults by kind and target.
func (w Writer) faults(r *Report) {
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
	fmt.Fprintln(w)
	w.line("report.faults", "n", len(r.Injected), "time", duration(r.SoldMS).Round(time.Second),
		"all", duration(r.TookMS).Round(time.Second))
	for _, kind := range Kinds() {
		total := 0
		var parts []string
		for _, target := range slices.Sorted(maps.Keys(counts[kind])) {
			total += counts[kind][target]
			parts = append(parts, fmt.Sprintf("%s %d", target, counts[kind][target]))
		}
		name := say("kind." + string(kind)).In(w.Lang)
		fmt.Fprintf(w, "  %s%s %3d  %s\n", name, strings.Repeat(" ", 8-words.Columns(name)), total,
			strings.Join(parts, ", "))
	}
	fmt.Fprint(w, "  ")
	w.line("report.past", "lease", lease, "n", past)
}

func (w Writer) results(r *Report) {
	rows := [][]string{strings.Split(say("report.heads").In(w.Lang), "|")}
	sum := Result{Strategy: say("report.all").In(w.Lang), Outcomes: make(map[loadtest.Outcome]int)}
	for _, l := range r.Results {
		rows = append(rows, l.cells())
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
	rows = append(rows, sum.cells())
	w.table(rows)
}

// cells returns the row of a result in the table.
func (l *Result) cells() []string {
	cells := []string{l.Strategy, l.Store, fmt.Sprint(l.SKUs)}
	for _, o := range loadtest.Outcomes() {
		cells = append(cells, fmt.Sprint(l.Outcomes[o]))
		if o == loadtest.Accepted {
			cells = append(cells, fmt.Sprint(l.Merged))
		}
	}
	for _, n := range []int64{
		int64(l.Found), l.SoldUnits, l.OversoldUnits, int64(l.Lost), l.NotDeducted, l.NotOrdered, int64(l.Breaks),
	} {
		cells = append(cells, fmt.Sprint(n))
	}
	return cells
}

// why returns the problem of a reply. Without one it returns the beginning of the client's error, whose end, from the
// network or the parser, differs from reply to reply.
func why(r loadtest.Reply) string {
	said, _, _ := strings.Cut(r.Error, ": ")
	return cmp.Or(r.Problem, said)
}

// problems writes why requests failed or have an unknown outcome.
func (w Writer) problems(r *Report) {
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
	fmt.Fprintln(w)
	w.line("report.problems", "list", strings.Join(parts, ", "))
}

func (w Writer) health(r *Report) {
	h := r.Health
	after, limit, longest := duration(h.AfterMS), duration(h.LimitMS), duration(r.LongestMS)
	switch {
	case len(h.Missing) > 0:
		w.line("report.unwell", "time", after, "missing", words.Join(h.Missing, say("step.between")))
	case h.Last == (words.Text{}):
		w.line("report.healthy", "time", after, "limit", limit, "n", r.Recovered, "longest", longest)
	default:
		w.line("report.healthy-last", "time", after, "limit", limit, "last", h.Last, "n", r.Recovered,
			"longest", longest)
	}
}

// table writes rows, of which the first has the heads, with a blank line before and after.
func (w Writer) table(rows [][]string) {
	widths := words.Widths(rows)
	fmt.Fprintln(w)
	for n, row := range rows {
		for i, cell := range row { // a Chinese character has two columns; text/tabwriter assumes one
			fmt.Fprint(w, "| ", cell, strings.Repeat(" ", widths[i]-words.Columns(cell)+1))
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for _, width := range widths {
				fmt.Fprint(w, "|", strings.Repeat("-", width+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
	fmt.Fprintln(w)
}

// A Checkout is the verdict on the order service.
type Checkout struct {
	Verdict checkout.Verdict `json:"verdict"`
	Figures checkout.Figures `json:"figures"`
}

// violations describes what is wrong and what is unknown.
func (c *Checkout) violations() (list []words.Text) {
	for _, check := range c.Verdict.Checks {
		for _, example := range check.Examples {
			list = append(list, say("violation.check", "check", check.Name, "why", example))
		}
		if more := check.Failed - len(check.Examples); more > 0 {
			list = append(list, say("violation.more", "check", check.Name, "n", more))
		}
	}
	if c.Verdict.Finding != loadtest.Holds && len(list) == 0 {
		list = append(list, say("violation.checkout", "why", c.Verdict.Sentence))
	}
	return list
}

// said returns the summary for a report.
func (c *Checkout) said() words.Text {
	f := &c.Figures
	var parts []string
	for _, o := range checkout.Outcomes() {
		parts = append(parts, fmt.Sprintf("%s %d", o, f.Outcomes[o]))
	}
	return say("report.checkout", "requests", f.Requests, "attempts", f.Attempts,
		"outcomes", strings.Join(parts, ", "), "cut", f.Cut, "replayed", f.Replayed, "orders", f.Orders, "late", f.Late,
		"movements", f.Movements, "events", f.Events, "again", f.Repeats, "back", duration(f.SweptMS.MaxMS),
		"finding", c.Verdict.Finding)
}
