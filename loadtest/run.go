package loadtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
)

// After a run, the final state is looked at for lookLimit at most. Where outcomes are unknown, instances may still be busy
// with them, so the stock must first have been at rest for quiet.
const (
	lookLimit = 30 * time.Second
	quiet     = time.Second
)

// A Result is all that is known of one run.
type Result struct {
	Plan        Plan      `json:"plan"` // with its defaults filled in
	Target      string    `json:"target"`
	Run         string    `json:"run"` // begins every request id
	Strategy    Strategy  `json:"strategy"`
	StartedAt   time.Time `json:"started_at"`
	Interrupted bool      `json:"interrupted"` // it ended before all requests were sent
	Records     []Record  `json:"-"`           // by Seq
	Final       Account   `json:"final"`
	Verdict     Verdict   `json:"verdict"`
	Latency     Latency   `json:"latency"`
}

// Progress is how far a run is.
type Progress struct {
	Done, Total int
	Outcomes    map[Outcome]int // so far; valid during the call only
	Elapsed     time.Duration
	Rate        float64 // replies per second since the start
	Last        bool    // no more will come
}

// Run sets the stock, sends the requests, looks at what the store says then, and judges.
//
// It calls progress, if not nil, about five times a second and at the end. When ctx ends during the attack, what was done is judged
// all the same, and that is no error. Errors are PlanErrors (cannot be run as asked for), TargetErrors (the target is down, refuses, or
// is no stock service), ctx's error if it ended before the first request, and errors of Plan.History, with which a Result comes too.
func Run(ctx context.Context, c *Client, p Plan, progress func(Progress)) (*Result, error) {
	p, err := p.filled()
	if err != nil {
		return nil, err
	}
	r := &Result{Target: c.URL(), Run: "load-" + strings.ToLower(rand.Text()[:10])}
	if r.Strategy, p.Store, err = c.choose(ctx, p); err != nil {
		return nil, err
	}
	before, err := c.SetStock(ctx, p.Store, p.SKU, p.Stock)
	if err != nil {
		return nil, err
	}
	if !p.Cold {
		c.warm(ctx, p.Concurrency)
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("before the first request: %w", context.Cause(ctx))
	}
	r.Plan = p
	r.StartedAt = time.Now().UTC()
	out := newHistoryWriter(p.History)
	out.header(Header{Run: r.Run, Target: r.Target, StartedAt: r.StartedAt, Plan: p, Strategy: r.Strategy, Before: before})
	r.attack(ctx, c, out, progress)
	r.Interrupted = len(r.Records) < p.Requests

	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	unsure := slices.ContainsFunc(r.Records, func(r Record) bool { return r.Outcome == Unknown })
	r.Final = c.account(look, before, p.Store, unsure)
	r.Verdict = Judge(r.Records, []Account{r.Final}, r.Strategy.Promise)
	r.Latency = Measure(r.Records)
	out.end(r.Final, r.Interrupted)
	if err := out.flush(); err != nil {
		return r, fmt.Errorf("write history: %w", err)
	}
	return r, nil
}

// choose looks up the strategy and settles the store.
func (c *Client) choose(ctx context.Context, p Plan) (s Strategy, store string, err error) {
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
		return s, "", c.fail("cannot run strategy %s now: %s", s.Name, s.Reason)
	case len(s.Stores) > 0 && store != "" && !slices.Contains(s.Stores, store):
		return s, "", &PlanError{"store", fmt.Sprintf("strategy %s works on %s, not on %s", s.Name, strings.Join(s.Stores, " and "), store)}
	case s.DownStores[store] != "":
		return s, "", c.fail("cannot use store %s now: %s", store, s.DownStores[store])
	}
	return s, store, nil
}

// attack fills in the records.
func (r *Result) attack(ctx context.Context, c *Client, out *historyWriter, progress func(Progress)) {
	p := r.Plan
	a := &attack{client: c, plan: p, run: r.Run, order: Request{
		Endpoint: r.Strategy.Endpoint, Store: p.Store, SKU: p.SKU, Quantity: p.Quantity, Wait: p.Wait,
	}}
	r.Records = make([]Record, 0, min(p.Requests, 1<<20))
	outcomes := make(map[Outcome]int)
	report := func(last bool) {
		_ = out.flush() // a history is whole up to here whatever happens next; the error stays, and is returned at the end
		if progress == nil {
			return
		}
		done, elapsed := len(r.Records), time.Since(a.start)
		progress(Progress{
			Done: done, Total: p.Requests, Outcomes: outcomes, Elapsed: elapsed,
			Rate: float64(done) / max(elapsed.Seconds(), 1e-9), Last: last,
		})
	}
	a.fire(ctx, func(record Record) {
		r.Records = append(r.Records, record)
		outcomes[record.Outcome]++
		out.record(&record)
	}, func() { report(false) })
	report(true)
	slices.SortFunc(r.Records, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
}
