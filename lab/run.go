package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
)

// cellLimit is how long one scenario may take for one case.
const cellLimit = 4 * time.Minute

// Options say what to run.
type Options struct {
	Scenarios  []Scenario
	Strategies []string // run only cases of these; empty: all cases
	Binary     string   // the stock program; empty: this executable
	Parent     string   // parent of the temporary folder; empty: os.TempDir()

	Server func(server.Event) // called when a server starts or stops; may be nil
	Began  func(Scenario, Case)
	Done   func(Scenario, Cell)
}

// Run starts the servers that the scenarios need, runs each scenario on each of its cases, and stops everything. A
// server that does not start is an error, but a cell that is not as predicted is not. When ctx ends, Run returns the
// finished cells and ctx's cause.
func Run(ctx context.Context, o Options) (report Report, err error) {
	report = Report{Version: ReportVersion, StartedAt: time.Now().UTC(), Cells: []Cell{}}
	defer func() { report.TookMS = ms(time.Since(report.StartedAt)) }()
	if err := phrases.Check(); err != nil {
		return report, err
	}
	options := stack.Options{
		Options: server.Options{Parent: o.Parent, Progress: o.Server}, Binary: o.Binary,
	}
	s, err := openFleet(ctx, options, union(o.Scenarios))
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r := &runner{Options: o, fleet: s, stack: options}
	for _, scenario := range o.Scenarios {
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		report.Cells = append(report.Cells, r.scenario(ctx, scenario)...)
	}
	return report, nil
}

type runner struct {
	Options
	fleet *fleet
	stack stack.Options
	count int
}

// maxAttempts is how often a case is tried while the testbed fails, such as when an instance does not start. A case
// with a verdict is never repeated, whatever the verdict.
const maxAttempts = 3

// scenario runs one scenario on the selected cases.
func (r *runner) scenario(ctx context.Context, s Scenario) []Cell {
	var cases []Case
	var cells []Cell
	for _, c := range s.Cases {
		if len(r.Strategies) == 0 || slices.Contains(r.Strategies, c.Subject()) {
			cases = append(cases, c)
			cells = append(cells, Cell{
				Scenario:  s.Name,
				Strategy:  c.Strategy,
				Code:      c.Code,
				Variant:   c.Label.EN,
				ZH:        c.Label.ZH,
				Store:     c.Store,
				Predicted: c.Want,
			})
		}
	}
	for attempt := 1; attempt <= maxAttempts; attempt++ {
		var open []job
		for i := range cells {
			if c := &cells[i]; attempt == 1 || c.Failed != "" && ctx.Err() == nil {
				c.Before, c.Failed = c.Failed, ""
				open = append(open, job{Cell: c, of: cases[i]})
			}
		}
		r.attempt(ctx, s, open)
		for _, c := range open {
			if r.Done != nil && (c.Failed == "" || attempt == maxAttempts) {
				r.Done(s, *c.Cell)
			}
		}
	}
	return cells
}

// A job is a cell to be filled in, with its case and, unless it must be skipped, its testbed.
type job struct {
	*Cell
	of  Case
	bed *Testbed
}

// attempt runs a scenario once and fills in the cells of jobs.
func (r *runner) attempt(ctx context.Context, s Scenario, jobs []job) {
	r.fleet.round++
	var alone, together []job
	for _, c := range jobs {
		r.count++
		c.StartedAt, c.Evidence, c.Events = time.Now().UTC(), []Evidence{}, []CaseEvent{}
		c.SKU = fmt.Sprintf("lab-%.40s-%d", s.Name, r.count)
		b, why, err := r.testbed(ctx, s, c.Cell, c.of)
		c.bed = b
		switch {
		case err != nil:
			c.Failed = err.Error()
		case why != "":
			c.Skipped = why
		case s.Run == nil || s.Together != nil && c.of.Code == "":
			together = append(together, c)
		default:
			alone = append(alone, c)
		}
	}
	if len(together) > 0 {
		runTogether(s, together)
	}
	for _, c := range alone {
		if r.Began != nil {
			r.Began(s, c.Case())
		}
		c.StartedAt = time.Now().UTC()
		stop := c.bed.limit()
		seen, failed := guard(func() Outcome { return s.Run(c.bed) })
		if failed == "" {
			c.judge(seen, c.bed.after)
		}
		c.close(c.bed, failed)
		stop()
	}
}

func runTogether(s Scenario, jobs []job) {
	var beds []*Testbed
	for _, c := range jobs {
		beds = append(beds, c.bed)
		defer c.bed.limit()()
	}
	seen, failed := guard(func() []Outcome { return s.Together(beds) })
	for i, c := range jobs {
		if failed == "" {
			c.judge(seen[i], c.bed.after)
		}
		c.close(c.bed, failed)
	}
}

// limit ends a case that takes longer than cellLimit from now.
func (b *Testbed) limit() (stop func()) {
	timer := time.AfterFunc(cellLimit, func() { b.end(fmt.Errorf("a case may take %v", cellLimit)) })
	return func() { timer.Stop() }
}

// testbed makes the testbed of a cell. why says why the cell must be skipped, or is "".
func (r *runner) testbed(ctx context.Context, s Scenario, cell *Cell, c Case) (b *Testbed, why string, err error) {
	for _, need := range s.Needs {
		if reason := r.fleet.missing(need); reason != "" {
			return nil, string(need) + ": " + reason, nil
		}
	}
	b = &Testbed{
		Case: c, SKU: cell.SKU, fleet: r.fleet, o: r.stack, says: s.Says,
		told: make(map[string][]Step),
	}
	if c.Strategy != "" {
		strategies, err := r.fleet.catalogue(ctx)
		if err != nil {
			return nil, "", fmt.Errorf("ask what strategies there are: %w", err)
		}
		strategy, ok := strategies[c.Strategy]
		switch {
		case !ok:
			return nil, "", fmt.Errorf("the service has no strategy %s", c.Strategy)
		case !strategy.Available:
			return nil, strategy.Reason, nil
		}
		b.Strategy, b.Promise = strategy, strategy.Promise
		if why := strategy.DownStores[b.Store()]; why != "" {
			return nil, why, nil
		}
		if c.Want.Outcome == "" {
			cell.Predicted = s.Predict(c, strategy.Promise)
		}
		cell.Store = b.Store()
	}
	b.Ctx, b.end = context.WithCancelCause(ctx)
	return b, "", nil
}

// guard calls f and returns the message of the failure or the panic that stopped it.
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

func (c *Cell) judge(o Outcome, after time.Duration) {
	c.Observed, c.AfterMS = o, ms(after)
	c.AsPredicted = c.Predicted.agrees(o, after)
}

// close cleans up the testbed and copies its evidence and events into the cell.
func (c *Cell) close(b *Testbed, failed string) {
	left := b.cleanup()
	c.TookMS = ms(time.Since(c.StartedAt))
	c.Failed = strings.TrimPrefix(strings.Join([]string{failed, left}, "; "), "; ")
	c.Failed = strings.TrimSuffix(c.Failed, "; ")
	if c.Failed != "" {
		c.AsPredicted = false
	}
	c.Evidence = append(c.Evidence, b.evidence...)
	c.Events = b.timeline.Events()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
