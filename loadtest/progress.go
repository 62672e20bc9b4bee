package loadtest

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Progress describes how far a run is.
type Progress struct {
	Done        int
	Total       int             // requests in all; 0: the run is limited by time
	Outcomes    map[Outcome]int // so far; valid during the call only
	Elapsed     time.Duration
	Left        time.Duration // approximate; 0: unknown
	Rate        float64       // replies per second since the start
	SoldRate    float64       // units accepted per second until the latest of them, as in Latency.Sold
	P50MS       float64       // latency so far, in milliseconds
	P99MS       float64
	Oversold    int64 // units accepted beyond the initial stock, so far
	Late        int   // in an open loop
	Dropped     int
	Interrupted bool // no more requests are sent; replies are awaited
	WarmUp      bool // this is the progress of the warm-up
	Last        bool // this is the last call
}

// A tally counts the replies of an attack as they come.
type tally struct {
	outcomes map[Outcome]int
	done     int
	late     int
	units    int64     // accepted
	first    time.Time // when the first request was sent
	sold     time.Time // when the latest unit was
	latency  *hdrhistogram.Histogram
	left     map[string]int64 // units by SKU; below 0: oversold
}

func newTally(p *Plan) *tally {
	t := &tally{outcomes: make(map[Outcome]int), latency: newHistogram(), left: make(map[string]int64)}
	for _, sku := range p.Names() {
		t.left[sku] = p.Stock
	}
	return t
}

func (t *tally) add(r *Record) {
	t.done++
	t.outcomes[r.Outcome]++
	record(t.latency, r.Latency())
	if r.Late() {
		t.late++
	}
	if t.first.IsZero() || r.SentAt.Before(t.first) {
		t.first = r.SentAt
	}
	if r.Outcome == Accepted {
		if r.DoneAt.After(t.sold) {
			t.sold = r.DoneAt
		}
		t.left[r.SKU] -= r.Quantity
		t.units += r.Quantity
	}
}

func (t *tally) progress(ctx context.Context, g *Generator[Record]) Progress {
	p := Progress{
		Done:        t.done,
		Outcomes:    t.outcomes,
		Elapsed:     g.Clock.Elapsed(),
		Late:        t.late,
		Dropped:     int(g.dropped.Load()),
		Interrupted: ctx.Err() != nil,
		P50MS:       float64(t.latency.ValueAtPercentile(50)) / 1000,
		P99MS:       float64(t.latency.ValueAtPercentile(99)) / 1000,
	}
	p.Rate = float64(t.done) / max(p.Elapsed.Seconds(), 1e-9)
	p.SoldRate = float64(t.units) / max(t.sold.Sub(t.first).Seconds(), 1e-6)
	for _, left := range t.left {
		p.Oversold += max(0, -left)
	}
	p.Total = g.Plan.Requests
	settled := t.done + p.Dropped
	switch {
	case g.Plan.Duration > 0:
		p.Left = max(0, g.Plan.Duration-p.Elapsed)
	case settled > 0:
		p.Left = time.Duration(float64(p.Elapsed) * float64(max(0, p.Total-settled)) / float64(settled))
	}
	return p
}

// attack runs the warm-up and the run, and fills in their records.
func (r *Result) attack(ctx context.Context, c Target, out *LineWriter, progress func(Progress)) {
	p := &r.Plan
	order := Request{Endpoint: r.Strategy.Endpoint, Store: p.Store, Wait: p.Wait, Timeout: p.Timeout}
	if p.WarmUp > 0 {
		w := p.warmUp()
		a := &attack{client: c, plan: w, order: order, mix: newMix(w), run: r.Run, warm: true}
		r.Warm, _, _ = a.collect(ctx, out, progress)
	}
	a := &attack{client: c, plan: p, order: order, mix: newMix(p), run: r.Run, base: highest(r.Warm)}
	r.Records, r.Dropped, r.Ran = a.collect(ctx, out, progress)
	r.Interrupted = ctx.Err() != nil
}

func highest(records []Record) int {
	top := 0
	for i := range records {
		top = max(top, records[i].Seq)
	}
	return top
}

// collect runs the attack, and records the replies.
func (a *attack) collect(ctx context.Context, out *LineWriter, progress func(Progress)) (
	records []Record, dropped int, ran []Ran,
) {
	t := newTally(a.plan)
	records = make([]Record, 0, min(a.plan.Requests, 1<<20))
	a.clock = StartClock()
	g := &Generator[Record]{Plan: a.plan, Clock: a.clock, Call: a.deduct}
	report := func(last bool) {
		// From here on, the history is complete whatever happens. A write error is kept and returned at the end.
		_ = out.Flush()
		if progress != nil {
			p := t.progress(ctx, g)
			p.WarmUp, p.Last = a.warm, last
			progress(p)
		}
	}
	g.Tick = func() { report(false) }
	g.Each = func(r *Record) {
		records = append(records, *r)
		t.add(r)
		out.Line(line{Record: r})
	}
	ran = g.Run(ctx)
	report(!a.warm)
	return records, int(g.dropped.Load()), ran
}
