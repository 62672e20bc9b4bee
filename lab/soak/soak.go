// Package soak loads every strategy that promises safety while it kills and pauses processes and breaks links, at
// random from a seed, and judges whether a single unit of stock was sold wrongly. It also runs the
// order service, and judges its books. Scenarios of package lab force known failures; a
// soak searches for unknown ones.
//
// A soak does not promise to find every error, or to find the same error twice with the same seed. A seed fixes the
// faults, not the interleaving.
package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// Options say what to do.
type Options struct {
	For       time.Duration // duration, without the last fault, the recovery and the verdict
	Seed      uint64
	Instances int           // 0: 3
	Within    time.Duration // time for recovery after the last fault; 0: 15 s

	Binary string // the stock program; empty: this executable
	Parent string // parent of the temporary folder; empty: os.TempDir()

	Server func(server.Event)                   // called when a server starts or stops; may be nil
	Say    func(at time.Duration, _ words.Text) // called for every event; may be nil
}

// Defaults of Options.
const (
	Instances = 3
	Within    = 15 * time.Second
)

func (o Options) complete() Options {
	if o.Instances == 0 {
		o.Instances = Instances
	}
	if o.Within == 0 {
		o.Within = Within
	}
	return o
}

// Plan returns the faults of Run: see NewPlan.
func (o Options) Plan() []Step {
	return NewPlan(o.Seed, o.For, instanceNames(o.complete().Instances), serverNames())
}

// Run does a soak. When ctx ends, Run ends the faults and judges the sales so far. An error, such as a MissingError or
// a server that does not start, means that there is no verdict. Lost stock is not an error; see Report.Violations.
func Run(ctx context.Context, o Options) (report Report, err error) {
	o = o.complete()
	fleet, err := openFleet(ctx, o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, fleet.close()) }()
	r := &run{Options: o, fleet: fleet, began: time.Now()}
	r.report = Report{
		Version:   Version,
		Seed:      o.Seed,
		ForMS:     ms(o.For),
		Instances: o.Instances,
		StartedAt: r.began.UTC(),
	}
	if err := r.open(ctx); err != nil {
		return report, err
	}
	// The feed reads Redis directly, so that faults of the instances' links do not affect the evidence.
	feed := checkout.NewStream(fleet.stack.Server(string(server.Redis)).Addr, "orders")
	defer func() { err = errors.Join(err, feed.Close()) }()
	if err := r.openShop(ctx, feed); err != nil {
		return report, err
	}
	load, stopLoad := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLoad()
	var sellers sync.WaitGroup
	r.sellAll(load, &sellers)
	sellers.Go(func() { r.shopping.Sell(load) })
	sellers.Go(func() { r.tick(load) })
	r.disturb(ctx)
	stopLoad()
	sellers.Wait()
	r.report.Interrupted = ctx.Err() != nil
	r.report.SoldMS = ms(time.Since(r.began))

	// The verdict comes even after ctx has ended.
	judging, cancel := context.WithTimeout(context.WithoutCancel(ctx), judgeLimit)
	defer cancel()
	r.say(say("progress.judging"))
	if err := errors.Join(r.judge(judging), r.judgeShop(judging)); err != nil {
		return r.report, fmt.Errorf("judge: %w", err)
	}
	r.report.TookMS = ms(time.Since(r.began))
	return r.report, nil
}

// A run is one soak.
type run struct {
	Options
	fleet    *fleet
	began    time.Time
	subjects []*subject

	shopping *checkout.Shopping

	mu     sync.Mutex
	report Report
}

func (r *run) say(text words.Text) {
	if r.Say == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Say(time.Since(r.began), text)
}

// disturb carries out the plan, and returns when everything is healthy again or patience is over.
func (r *run) disturb(ctx context.Context) {
	timed, cancel := context.WithTimeout(ctx, r.For)
	defer cancel()
	since := time.Now()
	for _, step := range r.Plan() {
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
	within, stop := context.WithTimeout(context.WithoutCancel(ctx), patience+r.Within)
	defer stop()
	r.report.Health = r.healthy(within, since)
}

// quiet waits for d, and records how soon after since everything is healthy. It reports whether to continue.
func (r *run) quiet(ctx context.Context, since time.Time, d time.Duration) bool {
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
func (r *run) tick(ctx context.Context) {
	for loadtest.Sleep(ctx, 10*time.Second) == nil {
		sold, asked := 0, 0
		for _, l := range r.subjects {
			s, a := l.progress()
			sold, asked = sold+s, asked+a
		}
		a, s := r.shopping.Attempts()
		sold, asked = sold+s, asked+a
		r.say(say("progress.sold", "asked", asked, "sold", sold))
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// patience is how long the soak waits for health beyond the limit, so that the report can give the time.
const patience = 45 * time.Second

// healthy waits until every instance reports every server up, and every strategy has accepted, on every store, a
// request that was sent after since. It returns the time from since and what recovered last, or what had not recovered
// when ctx ended.
func (r *run) healthy(ctx context.Context, since time.Time) (h Health) {
	h.LimitMS = ms(r.Within)
	for {
		h.Missing = r.unwell(ctx, since)
		if h.AfterMS = ms(time.Since(since)); len(h.Missing) == 0 {
			return h
		}
		h.Last = h.Missing[0]
		if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
			return h
		}
	}
}

func (r *run) unwell(ctx context.Context, since time.Time) (missing []words.Text) {
	for _, l := range r.subjects {
		if !l.soldSince(since) {
			missing = append(missing, say("missing.strategy", "strategy", l.Name, "store", l.store))
		}
	}
	if !r.shopping.DoneSince(since) {
		missing = append(missing, say("missing.shops"))
	}
	if len(missing) > 0 {
		return missing // check the instances only when the sales have recovered: each check is load
	}
	for _, i := range slices.Concat(r.fleet.instances, r.fleet.shops) {
		if err := i.ready(ctx); err != nil {
			missing = append(missing, say("missing.instance", "instance", i.Name, "why", err))
		}
	}
	return missing
}

// inject carries out f for f.For, or until ctx ends, and always undoes it.
func (r *run) inject(ctx context.Context, f Fault) {
	if loadtest.Sleep(ctx, f.Later) != nil {
		return
	}
	began := time.Now()
	r.say(f.Said())
	heal, err := r.fleet.begin(f)
	if err == nil {
		_ = loadtest.Sleep(ctx, f.For) // it ends early with ctx, which the caller looks at
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
