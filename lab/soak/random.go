package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// Random says how to search for unknown failures.
type Random struct {
	Options
	For  time.Duration // duration, without the last fault, the recovery and the verdict
	Seed uint64
}

// demos is the number of instances of the demonstration.
const demos = 3

// within is the time for recovery after the last fault.
const within = 15 * time.Second

// Plan returns the faults of Run: see NewPlan.
func (o Random) Plan() []Step {
	return NewPlan(o.Seed, o.For, instanceNames(), serverNames())
}

// Run carries the plan out. When ctx ends, Run ends the faults and judges the sales so far. An error, such as a
// server.MissingError or a server that does not start, means that there is no verdict. Lost stock is not an error; see
// Report.Violations.
func (o Random) Run(ctx context.Context) (report Report, err error) {
	site, err := openSite(ctx, o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	r := &soak{sale: newSale(ctx, o.Options, site), plan: o, open: make(map[*lane][]*loadtest.Result)}
	defer r.end()
	r.report = Report{
		Version: Version, Seed: o.Seed, ForMS: ms(o.For), StartedAt: r.began.UTC(),
	}
	if err := r.choose(ctx); err != nil {
		return report, err
	}
	// The feed reads Redis directly, so that faults of the instances' links do not affect the evidence.
	feed := checkout.NewStream(site.stack.Server(string(server.Redis)).Addr, "orders")
	defer func() { err = errors.Join(err, feed.Close()) }()
	plan := checkout.Plan{SKU: "soak-cart", Stock: 300, Concurrency: 2 * shops, Seed: o.Seed}
	if err := r.openShop(ctx, plan, feed); err != nil {
		return report, fmt.Errorf("stock the order service: %w", err)
	}
	r.start(func(ctx context.Context, l *lane) { l.sellInTurns(ctx, o.Seed, r.judged(l)) }, r.tick)
	r.disturb(ctx)
	r.report.Interrupted = ctx.Err() != nil
	r.report.SoldMS = ms(time.Since(r.began))
	r.say(say("progress.judging"))
	r.end()

	// The verdict comes even after ctx has ended.
	judging, cancel := context.WithTimeout(context.WithoutCancel(ctx), judgeLimit)
	defer cancel()
	if err := r.judgeAgain(judging); err != nil {
		return r.report, fmt.Errorf("judge: %w", err)
	}
	result, err := r.shopping.Judge(judging)
	if err != nil {
		return r.report, fmt.Errorf("judge: %w", err)
	}
	r.report.Checkout = Checkout{result.Verdict, result.Figures}
	r.report.TookMS = ms(time.Since(r.began))
	return r.report, nil
}

// judgeLimit bounds the time for reading what was sold.
const judgeLimit = 5 * time.Minute

// A soak is one run of Random.
type soak struct {
	*sale
	plan Random

	mu     sync.Mutex // guards these while the load is on
	report Report
	open   map[*lane][]*loadtest.Result // turns that could not be decided while servers were down
}

// choose makes a lane of every strategy and store whose promise covers the faults.
func (r *soak) choose(ctx context.Context) error {
	catalogue, err := r.site.demo[0].Strategies(ctx)
	if err != nil {
		return err
	}
	for _, s := range catalogue {
		if why := unsuited(s); why != (words.Text{}) {
			r.report.LeftOut = append(r.report.LeftOut, LeftOut{s.Name, why})
			continue
		}
		for _, store := range s.Stores {
			l := newLane(s.Name, store, r.site.demo)
			l.burst, l.phase = burst, time.Now().Add(-rand.N(burst))
			r.lanes = append(r.lanes, l)
			r.report.Results = append(r.report.Results, newResult(s.Name, store))
		}
	}
	if len(r.lanes) == 0 {
		return fmt.Errorf("no strategy is suited: %v", r.report.LeftOut)
	}
	return nil
}

// unsuited returns why a strategy is left out, or an empty text if it is tested.
func unsuited(s loadtest.Strategy) words.Text {
	switch {
	case s.Promise.Scope == loadtest.Nowhere:
		return say("unsuited.no-exclusion")
	case s.Promise.Scope != loadtest.Cluster:
		return say("unsuited.process")
	case !s.Promise.Fenced:
		return say("unsuited.unfenced")
	case !s.Available:
		return say("unsuited.absent", "why", s.Reason)
	}
	return words.Text{}
}

// judged returns the function that adds the result of a turn to the lane's, and tells at once what is wrong.
func (r *soak) judged(l *lane) func(*loadtest.Result) {
	return func(turn *loadtest.Result) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if turn.Verdict.Finding == loadtest.Undecided && !untouched(turn) {
			r.open[l] = append(r.open[l], turn)
			return
		}
		r.add(l, turn)
	}
}

func (r *soak) add(l *lane, turn *loadtest.Result) {
	for _, text := range r.report.Results[slices.Index(r.lanes, l)].add(turn) {
		r.say(say("violation.strategy", "strategy", l.strategy, "store", l.store, "why", text))
	}
}

// judgeAgain decides the turns that could not be decided while servers were down.
func (r *soak) judgeAgain(ctx context.Context) error {
	for l, turns := range r.open {
		for _, turn := range turns {
			if err := l.judgeAgain(ctx, turn); err != nil {
				return fmt.Errorf("%s: %w", turn.Plan.SKU, err)
			}
			r.add(l, turn)
		}
	}
	return nil
}

// disturb carries out the plan, and returns when everything is healthy again or patience is over.
func (r *soak) disturb(ctx context.Context) {
	timed, cancel := context.WithTimeout(ctx, r.plan.For)
	defer cancel()
	since := time.Now()
	for _, step := range r.plan.Plan() {
		if !r.quiet(timed, since, step.Quiet) {
			break
		}
		var all sync.WaitGroup
		for _, f := range step.Faults {
			all.Go(func() { r.inject(timed, f) })
		}
		all.Wait()
		since = time.Now()
	}
	<-timed.Done()
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer stop()
	r.report.Health = r.healthy(within, since)
}

// quiet waits for d, and records how soon after since everything is healthy. It reports whether to continue.
func (r *soak) quiet(ctx context.Context, since time.Time, d time.Duration) bool {
	within, stop := context.WithTimeout(ctx, d)
	defer stop()
	if h := r.healthy(within, since); len(h.Missing) == 0 {
		r.report.Recovered++
		r.report.LongestMS = max(r.report.LongestMS, h.AfterMS)
		<-within.Done()
	}
	return ctx.Err() == nil
}

// tick reports the number of requests and sales every 10 seconds.
func (r *soak) tick(ctx context.Context) {
	for sleep(ctx, 10*time.Second) {
		asked, sold := r.shopping.Attempts()
		for _, l := range r.lanes {
			s, a := l.progress()
			sold, asked = sold+s, asked+a
		}
		r.say(say("progress.sold", "asked", asked, "sold", sold))
	}
}

// healthy waits until every instance reports every server up, and every strategy has accepted, on every store, a
// request that was sent after since. It returns the time from since and what recovered last, or what had not recovered
// when ctx ended.
func (r *soak) healthy(ctx context.Context, since time.Time) (h Health) {
	h.LimitMS = ms(within)
	for {
		h.Missing = r.unwell(ctx, since)
		if h.AfterMS = ms(time.Since(since)); len(h.Missing) == 0 {
			return h
		}
		h.Last = h.Missing[0]
		if !sleep(ctx, 50*time.Millisecond) {
			return h
		}
	}
}

func (r *soak) unwell(ctx context.Context, since time.Time) (missing []words.Text) {
	if missing = r.silent(since); len(missing) > 0 {
		return missing // check the instances only when the sales have recovered: each check is load
	}
	for _, i := range r.site.instances() {
		if err := r.site.stack.Ready(ctx, i); err != nil {
			missing = append(missing, say("missing.instance", "instance", i.Name, "why", err))
		}
	}
	return missing
}

// inject carries out f for f.For, or until ctx ends, and always undoes it.
func (r *soak) inject(ctx context.Context, f Fault) {
	if !sleep(ctx, f.Later) {
		return
	}
	began := time.Now()
	r.say(f.Said())
	heal, err := r.site.begin(f)
	if err == nil {
		_ = sleep(ctx, f.For) // it ends early with ctx, which the caller looks at
		// The fault is undone even if ctx has ended.
		err = heal(context.WithoutCancel(ctx))
	}
	done := Injected{
		Kind:      f.Kind,
		Target:    f.Target,
		Text:      f.Said(),
		PastLease: f.Past(),
		AtMS:      ms(began.Sub(r.began)),
		TookMS:    ms(time.Since(began)),
	}
	if err != nil {
		done.Error = err.Error()
		r.say(say("progress.failed", "fault", f.Said(), "why", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Injected = append(r.report.Injected, done)
}
