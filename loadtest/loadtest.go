package loadtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// After a run, one reading of the final state takes lookLimit at most. If outcomes are unknown, instances may still
// work on them, so the stock must first be unchanged for quiet.
const (
	lookLimit = 30 * time.Second
	quiet     = time.Second
)

// Recheck is the default time between the judge's first and second look at stock and orders. A service may take back a
// sale between them. maxRecheck is the largest allowed value.
const (
	Recheck    = time.Second
	maxRecheck = time.Hour
)

// warmStock is the stock of the SKUs of a warm-up. It lasts for the whole of it.
const warmStock = 1_000_000_000

// Run sets the stock, sends the requests, reads the final state of the store, and judges.
//
// Run calls progress, if not nil, about five times a second and at the end. If ctx ends during the attack, Run judges
// the requests so far and returns no error. Errors are PlanErrors (the plan is impossible), TargetErrors (the target is
// down, refuses, or is no stock service), ctx's error if it ended before the first request, and errors of Plan.History,
// which come with a Result.
//
// The warm-up sells from separate SKUs (with "-warm" after the name), so that a warm-up request that ends during the
// run does not change the judged stock. It warms connections, pools, scripts and code, but not the state that locks and
// stores keep for each SKU.
func Run(ctx context.Context, c Target, p Plan, progress func(Progress)) (*Result, error) {
	p, err := p.filled()
	if err != nil {
		return nil, err
	}
	r := &Result{Target: c.URL(), Run: "load-" + strings.ToLower(rand.Text()[:10])}
	if r.Strategy, p.Store, err = choose(ctx, c, p); err != nil {
		return nil, err
	}
	if p.WarmUp > 0 {
		if _, err := setStocks(ctx, c, p.Store, p.warmUp().Names(), warmStock); err != nil {
			return nil, err
		}
	}
	before, err := setStocks(ctx, c, p.Store, p.Names(), p.Stock)
	if err != nil {
		return nil, err
	}
	if w, can := c.(warmer); can {
		w.Warm(ctx, p.warmConnections())
	}
	if ctx.Err() != nil {
		return nil, phrases.Error("target.not-begun", "why", context.Cause(ctx))
	}
	r.Plan, r.Command = p, commandLine(r.Target, &p)
	r.StartedAt = time.Now().UTC()
	out := NewLineWriter(p.History)
	out.Line(Header{
		Format:    Format,
		Version:   Version,
		Run:       r.Run,
		Target:    r.Target,
		StartedAt: r.StartedAt,
		Plan:      p,
		Strategy:  r.Strategy,
		Command:   r.Command,
		Before:    before,
	})
	r.attack(ctx, c, out, progress)

	r.look(ctx, c, before)
	r.writeEnd(out)
	if err := out.Flush(); err != nil {
		return r, phrases.Error("history.not-written", "why", err)
	}
	return r, nil
}

// look reads the final state of the store and judges, and does both again after Plan.Recheck, because a service may
// take back a sale. Faults that the first look proved stay proved. If ctx ends before the second look, there is none.
func (r *Result) look(ctx context.Context, c Target, before []Stock) {
	r.read(ctx, c, before, nil)
	if r.Verdict.Finding == Broken || *r.Plan.Recheck == 0 || Sleep(ctx, *r.Plan.Recheck) != nil {
		return
	}
	r.read(ctx, c, before, r.Accounts)
}

// read is one look. earlier is the result of an earlier look, or nil.
func (r *Result) read(ctx context.Context, c Target, before []Stock, earlier []Account) {
	ctx = context.WithoutCancel(ctx)
	waited := *r.Plan.Recheck
	if earlier == nil {
		settling, cancel := context.WithTimeout(ctx, lookLimit)
		settleUnknown(settling, c, r.Plan.Store, r.Records)
		cancel()
		waited = 0
	}
	late := LookAgain(ctx, r.Plan.Late, func() bool {
		reading, cancel := context.WithTimeout(ctx, lookLimit)
		defer cancel()
		r.Accounts = accounts(reading, c, before, r.Plan.Store, r.Records)
		for i := range earlier {
			r.Accounts[i] = earlier[i].again(r.Accounts[i])
		}
		r.judge()
		return r.Verdict.mayComeRight()
	})
	if late > 0 {
		r.SettledMS = float64(waited+late) / float64(time.Millisecond)
		r.Warnings = r.warnings()
	}
}

// LateLimit is how late a target may report changes of stock and orders, such as from a cache or a lagging replica or
// index. A later disagreement with the replies is a contradiction.
const LateLimit = 3 * time.Second

// LookAgain calls wrong until it returns false. wrong reads the target, and reports whether it found a disagreement
// that may vanish with time. The target is not to blame for the time that a reading takes, so LookAgain gives up only
// after a reading that began limit or more after the first. It returns the time from the start to the last call, or 0
// if the first call returned false or none did. If limit is 0, it is LateLimit.
func LookAgain(ctx context.Context, limit time.Duration, wrong func() bool) (late time.Duration) {
	limit = cmp.Or(limit, LateLimit)
	for began := time.Now(); wrong(); late = time.Since(began) {
		if late >= limit || Sleep(ctx, limit/20) != nil {
			return 0
		}
	}
	return late
}

// mayComeRight reports whether late reports by the target may explain all faults. They cannot explain faults that the
// orders themselves prove, such as two that read the same version.
func (v *Verdict) mayComeRight() bool {
	return v.late && v.Collisions == 0 && v.OversoldUnits <= v.pending && v.StaleReads == v.skipped
}

// setStocks sets the stock of each SKU.
func setStocks(ctx context.Context, c Target, store string, skus []string, quantity int64) ([]Stock, error) {
	list := make([]Stock, 0, len(skus))
	for _, sku := range skus {
		stock, err := c.SetStock(ctx, store, sku, quantity)
		if err != nil {
			return nil, err
		}
		list = append(list, stock)
	}
	return list, nil
}

// choose looks up the strategy, and chooses the store.
func choose(ctx context.Context, c Target, p Plan) (s Strategy, store string, err error) {
	catalogue, err := c.Strategies(ctx)
	if err != nil {
		return s, "", err
	}
	if s, err = Find(catalogue, p.Strategy); err != nil {
		return s, "", err
	}
	store = p.Store
	if store == "" {
		store = s.DefaultStore
	}
	switch {
	case !s.Available:
		return s, "", &TargetError{c.URL(), phrases.Error("target.not-now", "strategy", s.Name, "why", s.Reason)}
	case len(s.Stores) > 0 && store != "" && !slices.Contains(s.Stores, store):
		return s, "", wrong("store", "other-store", "strategy", s.Name, "stores", either(s.Stores), "store", store)
	case s.DownStores[store] != "":
		return s, "", &TargetError{
			c.URL(), phrases.Error("target.store-not-now", "store", store, "why", s.DownStores[store]),
		}
	}
	return s, store, nil
}

// A Result is everything known about one run.
type Result struct {
	Plan        Plan      `json:"plan"` // with its defaults filled in
	Target      string    `json:"target"`
	Run         string    `json:"run"`     // unique name
	Command     string    `json:"command"` // as in Header
	Strategy    Strategy  `json:"strategy"`
	StartedAt   time.Time `json:"started_at"`
	Interrupted bool      `json:"interrupted"`   // the run ended before the reply to the last request
	Dropped     int       `json:"dropped"`       // as in End
	Warm        []Record  `json:"-"`             // of the warm-up, by Seq; not in the figures
	Records     []Record  `json:"-"`             // by Seq
	Ran         []Ran     `json:"ran,omitempty"` // the commands of Plan.At
	Accounts    []Account `json:"accounts"`      // by SKU, in the order of Plan.Names
	Verdict     Verdict   `json:"verdict"`
	// SettledMS is how long the target reported stock or orders that disagreed with the replies; 0: it agreed at once,
	// or never.
	SettledMS float64       `json:"settled_ms,omitempty"`
	Latency   Latency       `json:"latency"`
	Fairness  Fairness      `json:"fairness"`
	Warnings  []words.Text  `json:"warnings,omitempty"`     // why the figures may mislead, a sentence each
	Expected  []Expectation `json:"expectations,omitempty"` // the thresholds for the run; Expect fills it in
}

// judge computes everything that follows from the evidence.
func (r *Result) judge() {
	bySeq := func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) }
	slices.SortStableFunc(r.Warm, bySeq)
	slices.SortStableFunc(r.Records, bySeq)
	r.Verdict = Judge(r.evidence())
	r.Latency = Measure(r.Records)
	r.Fairness = fairnessOf(r)
	r.aftermath()
	r.Warnings = r.warnings()
}

// evidence returns the evidence of the run, with the records sorted by Seq.
func (r *Result) evidence() Evidence {
	return Evidence{Records: r.Records, Accounts: r.Accounts, Promise: r.Strategy.Promise, Shared: r.Plan.Shared}
}

// lateShare is the share of late or dropped requests above which an open loop deviates from its plan.
const lateShare = 0.01

// NeverRanOut returns, of a run that holds but asked for no more units than there were, the warning that it could not
// oversell.
func (r *Result) NeverRanOut() (warning words.Text, never bool) {
	v := &r.Verdict
	return phrases.Say("warning.never-ran-out", "left", v.RemainingUnits, "initial", v.InitialUnits),
		v.Finding == Holds && v.SoldOut == 0 && v.RemainingUnits > 0
}

func (r *Result) warnings() []words.Text {
	var list []words.Text
	warn := func(key string, pairs ...any) { list = append(list, phrases.Say("warning."+key, pairs...)) }
	if r.SettledMS > 0 {
		warn("settled", "after", Millis(r.SettledMS))
	}
	if text, never := r.NeverRanOut(); never {
		list = append(list, text)
	}
	if !r.Plan.Open() {
		return list
	}
	planned := len(r.Records) + r.Dropped
	percent := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(planned, 1))) }
	if late := r.Latency.Late; float64(late) > lateShare*float64(planned) {
		warn("late", "late", late, "n", planned, "percent", percent(late), "limit", Late,
			"most", Millis(r.Latency.LongestLateMS))
	}
	if r.Dropped > 0 {
		warn("dropped", "dropped", r.Dropped, "n", planned, "percent", percent(r.Dropped),
			"limit", r.Plan.MaxInFlight, "rate", r.Plan.Rate)
	}
	return list
}

// ReportFormat and ReportVersion are the format and version of every JSON report.
const (
	ReportFormat  = "stock-load-report"
	ReportVersion = 3
)

// A Report is the document of runs. It has them without their requests, which are in the histories.
type Report struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Runs    []*Result `json:"runs"`
}

// NewReport returns the document of these runs.
func NewReport(runs []*Result) Report { return Report{ReportFormat, ReportVersion, runs} }

// EncodeJSON writes v as JSON that people can read.
func EncodeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
