package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"example.com/stock/stack"
)

// cellLimit is how long one scenario may take for one case.
const cellLimit = 4 * time.Minute

// Options say what to run.
type Options struct {
	Scenarios  []Scenario
	Strategies []string // only cases of these; empty: all cases
	Repeat     int      // how often; 0: once
	Binary     string   // the stock program; empty: this one
	Parent     string   // where the temporary folder is made; empty: os.TempDir()

	Server func(stack.Event) // told of servers that start and stop; nil: nobody
	Began  func(Scenario, Case)
	Done   func(Scenario, Cell)
}

// Run starts the servers that the scenarios need, runs each on each of its cases, and stops everything. A cell that is not as predicted
// is no error; that the servers do not start is one. When ctx ends, what was done is returned with its cause.
func Run(ctx context.Context, o Options) (report Report, err error) {
	report = Report{Version: ReportVersion, StartedAt: time.Now().UTC(), Cells: []Cell{}}
	defer func() { report.TookMS = ms(time.Since(report.StartedAt)) }()
	options := stack.Options{Binary: o.Binary, Parent: o.Parent, Progress: o.Server}
	s, err := openStand(ctx, options, union(o.Scenarios))
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &runner{Options: o, stand: s, stack: options}
	for repeat := range max(o.Repeat, 1) {
		for _, scenario := range o.Scenarios {
			if ctx.Err() != nil {
				return report, context.Cause(ctx)
			}
			report.Cells = append(report.Cells, r.scenario(ctx, scenario, repeat+1)...)
		}
	}
	return report, nil
}

type runner struct {
	Options
	stand *stand
	stack stack.Options
	count int
}

// attempts is how often a case is tried that comes to no verdict, because the bench failed it: an instance did not start, a server did not
// answer. What came to a verdict is never tried again, whatever the verdict is.
const attempts = 3

// scenario runs one on the cases that are wanted.
func (r *runner) scenario(ctx context.Context, s Scenario, repeat int) []Cell {
	var cells []Cell
	for _, c := range s.Cases {
		if len(r.Strategies) == 0 || slices.Contains(r.Strategies, c.Subject()) {
			cells = append(cells, Cell{
				Scenario: s.Name, Strategy: c.Strategy, Code: c.Code, Variant: c.Variant, Store: c.Store, Repeat: repeat, Predicted: c.Want,
			})
		}
	}
	for attempt := 1; attempt <= attempts; attempt++ {
		var open []*Cell
		for i := range cells {
			if c := &cells[i]; attempt == 1 || c.Failed != "" && ctx.Err() == nil {
				c.Before, c.Failed = c.Failed, ""
				open = append(open, c)
			}
		}
		r.attempt(ctx, s, open)
		for _, c := range open {
			if c.Failed == "" || attempt == attempts {
				r.tellDone(s, *c)
			}
		}
	}
	return cells
}

// attempt fills cells in.
func (r *runner) attempt(ctx context.Context, s Scenario, cells []*Cell) {
	r.stand.turn++
	var benches []*Bench
	var live []*Cell
	for _, cell := range cells {
		r.count++
		cell.StartedAt, cell.Evidence, cell.Events = time.Now().UTC(), []Evidence{}, []Event{}
		cell.SKU = fmt.Sprintf("lab-%.40s-%d", s.Name, r.count)
		b, why, err := r.bench(ctx, s, cell)
		switch {
		case err != nil:
			cell.Failed = err.Error()
		case why != "":
			cell.Skipped = why
		default:
			benches, live = append(benches, b), append(live, cell)
		}
	}
	if s.Together != nil && len(live) > 0 {
		for _, b := range benches {
			defer b.limit()()
		}
		seen, failed := guard(func() []Observation { return s.Together(benches) })
		for i, cell := range live {
			if failed == "" {
				cell.judge(seen[i])
			}
			cell.close(benches[i], failed)
		}
		return
	}
	for i, cell := range live {
		r.tellBegan(s, cell.Case())
		cell.StartedAt = time.Now().UTC()
		stop := benches[i].limit()
		seen, failed := guard(func() Observation { return s.Run(benches[i]) })
		if failed == "" {
			cell.judge(seen)
		}
		cell.close(benches[i], failed)
		stop()
	}
}

// limit bounds a case that begins now.
func (b *Bench) limit() (stop func()) {
	timer := time.AfterFunc(cellLimit, func() { b.end(fmt.Errorf("a case may take %v", cellLimit)) })
	return func() { timer.Stop() }
}

func (r *runner) tellBegan(s Scenario, c Case) {
	if r.Began != nil {
		r.Began(s, c)
	}
}

func (r *runner) tellDone(s Scenario, c Cell) {
	if r.Done != nil {
		r.Done(s, c)
	}
}

// bench makes the bench of a cell, or says why the cell cannot be tried.
func (r *runner) bench(ctx context.Context, s Scenario, cell *Cell) (b *Bench, why string, err error) {
	c := cell.Case()
	c.Want = cell.Predicted
	for _, need := range s.Needs {
		if reason := r.stand.missing(need); reason != "" {
			return nil, string(need) + ": " + reason, nil
		}
	}
	b = &Bench{Case: c, SKU: cell.SKU, stand: r.stand, o: r.stack}
	if c.Strategy != "" {
		offers, err := r.stand.strategies(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("ask what strategies there are: %w", err)
		}
		offer, ok := offers[c.Strategy]
		switch {
		case !ok:
			return nil, "", fmt.Errorf("the service has no strategy %s", c.Strategy)
		case !offer.Available:
			return nil, offer.Reason, nil
		}
		b.Strategy, b.Promise = offer, offer.Promise
		if why := offer.DownStores[b.Store()]; why != "" {
			return nil, why, nil
		}
		if c.Want.Outcome == "" {
			cell.Predicted = s.Predict(c, offer.Promise)
		}
		cell.Store = b.Store()
	}
	b.Ctx, b.end = context.WithCancelCause(ctx)
	return b, "", nil
}

// guard turns what stops a scenario into words.
func guard[T any](f func() T) (out T, failed string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			failed = r.err.Error()
		default:
			failed = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f(), ""
}

func (c *Cell) judge(o Observation) {
	c.Observed, c.AfterMS = o.Outcome, ms(o.After)
	c.AsPredicted = c.Predicted.agrees(o)
}

// close ends the bench and takes over what it wrote down.
func (c *Cell) close(b *Bench, failed string) {
	left := b.cleanup()
	c.TookMS = ms(time.Since(c.StartedAt))
	c.Failed = strings.TrimPrefix(strings.Join([]string{failed, left}, "; "), "; ")
	c.Failed = strings.TrimSuffix(c.Failed, "; ")
	if c.Failed != "" {
		c.AsPredicted = false
	}
	c.Evidence = append(c.Evidence, b.evidence...)
	slices.SortStableFunc(b.events, func(x, y Event) int { return cmp.Or(x.At.Compare(y.At), x.Until.Compare(y.Until)) })
	c.Events = append(c.Events, b.events...)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
