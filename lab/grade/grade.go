// Package grade grades a lock that somebody else wrote, in any language. It starts the lock as a process for each
// contender, forces the failures of the fault lab on it, and says for each whether the lock holds.
//
// A lock speaks a protocol of two requests (see docs/lessons/12-grade-your-own-lock.md). The critical section is not
// the lock's: the grader reads the stock, thinks, and writes, in a store of its own. So it judges overselling from the
// history of that store, and believes neither the lock nor a clock.
package grade

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

func say(key string, pairs ...any) words.Text { return phrases.Say(key, pairs...) }

// A Grade is the judgement on a lock in one scenario. The set is closed.
type Grade string

// The grades.
const (
	Holds       Grade = "holds"
	Oversells   Grade = "oversells"    // two holders sold the same unit
	Blocks      Grade = "blocks"       // nobody gets the lock again
	Starves     Grade = "starves"      // some never get the lock, while others do
	NotTestable Grade = "not-testable" // the failure cannot happen to this lock, or cannot be forced
	Ungraded    Grade = "ungraded"     // the lock broke the protocol, or the grader failed
)

// Word returns the grade in both languages.
func (g Grade) Word() words.Text { return say("grades." + string(g)) }

// Failed reports whether the lock failed.
func (g Grade) Failed() bool { return g == Oversells || g == Blocks || g == Starves }

// Options say what to grade, and how.
type Options struct {
	Command []string // the lock as a program; or
	URL     string   // the lock behind HTTP
	Name    string   // of the lock in the report; empty: the command or the URL

	Only    []string      // names of scenarios; empty: all
	Servers []server.Kind // to offer; empty: all of Servers
	Lease   time.Duration // LEASE_MS of the lock
	Wait    time.Duration // how long a scenario waits for what must happen
	Waiters int           // contenders of hundred-waiters
	Grace   time.Duration // how much longer than WAIT_MS a reply may take; 0: 5 s
	Parent  string        // of the temporary folder; empty: os.TempDir()

	Server func(server.Event) // called when a server starts or stops; may be nil
	Began  func(Scenario)
	Done   func(Result)
}

// The defaults and limits of Options.
const (
	DefaultLease   = 2 * time.Second
	DefaultWait    = 10 * time.Second
	DefaultWaiters = 100
	defaultGrace   = 5 * time.Second
)

// A Result is the grade of one scenario.
type Result struct {
	Scenario string            `json:"scenario"`
	Grade    Grade             `json:"grade"`
	Why      string            `json:"why"`
	ZH       string            `json:"why_zh"`
	Read     string            `json:"read"` // what to read about it, from the root of the repository
	TookMS   float64           `json:"took_ms"`
	Commands int               `json:"commands,omitempty"` // to the servers, for hundred-waiters
	Verdict  *loadtest.Verdict `json:"verdict,omitempty"`  // of the history
	Orders   []loadtest.Order  `json:"orders"`             // the history, in the order of writing
	Cell     lab.Cell          `json:"cell"`               // events, for a diagram
}

// Said returns Why in both languages.
func (r Result) Said() words.Text { return words.Text{EN: r.Why, ZH: r.ZH} }

// A Report is one run of the grader.
type Report struct {
	Version   int       `json:"version"`
	Lock      string    `json:"lock"` // the command or the URL
	StartedAt time.Time `json:"started_at"`
	TookMS    float64   `json:"took_ms"`
	Results   []Result  `json:"results"`
}

// ReportVersion is the version of the JSON form.
const ReportVersion = 1

// Worst returns a grade that failed, or else Ungraded if there is one, or else Holds.
func (r Report) Worst() Grade {
	worst := Holds
	for _, result := range r.Results {
		switch {
		case result.Grade.Failed():
			return result.Grade
		case result.Grade == Ungraded:
			worst = Ungraded
		}
	}
	return worst
}

// Run starts the servers, grades the lock in each scenario, and stops everything. A lock that fails is no error. When
// ctx ends, Run returns the finished results and ctx's cause.
func Run(ctx context.Context, o Options) (report Report, err error) {
	o.Lease, o.Wait = cmp.Or(o.Lease, DefaultLease), cmp.Or(o.Wait, DefaultWait)
	o.Waiters, o.Grace = cmp.Or(o.Waiters, DefaultWaiters), cmp.Or(o.Grace, defaultGrace)
	report = Report{Version: ReportVersion, Lock: o.name(), StartedAt: time.Now().UTC(), Results: []Result{}}
	defer func() { report.TookMS = ms(time.Since(report.StartedAt)) }()
	scenarios, err := Find(o.Only...)
	if err = errors.Join(err, phrases.Check()); err != nil {
		return report, err
	}
	if o.URL != "" {
		if err := newRemote(o.URL).reach(ctx); err != nil {
			return report, err
		}
	}
	var want []server.Kind // a lock behind HTTP has its own servers
	if o.URL == "" {
		if want = o.Servers; len(want) == 0 {
			want = Servers()
		}
	}
	servers, err := server.Start(ctx, server.Options{Want: want, Parent: o.Parent, Progress: o.Server})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	for _, s := range scenarios {
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		if o.Began != nil {
			o.Began(s)
		}
		result := grade(ctx, &o, servers, s)
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		report.Results = append(report.Results, result)
		if o.Done != nil {
			o.Done(result)
		}
	}
	return report, nil
}

// name returns the lock as the user named it.
func (o *Options) name() string {
	switch {
	case o.Name != "":
		return printable(o.Name)
	case o.URL != "":
		return o.URL
	}
	return printable(strings.Join(o.Command, " "))
}

// figureName returns the lock for the head of a figure.
func (o *Options) figureName() string {
	if o.URL != "" {
		return "lock"
	}
	if o.Name != "" {
		return printable(filepath.Base(o.Name))
	}
	return printable(filepath.Base(o.Command[len(o.Command)-1]))
}

// outcomes are the words of the lab for the grades that have one.
var outcomes = map[Grade]lab.Outcome{
	Holds: lab.Safe, Oversells: lab.Oversells, Blocks: lab.Blocks, Starves: lab.Starves,
}

// grade runs one scenario. It returns when every process of the scenario is gone.
func grade(ctx context.Context, o *Options, servers *server.Stack, s Scenario) Result {
	began := time.Now()
	limit := 12*o.Wait + time.Minute
	bounded, cancel := context.WithTimeoutCause(ctx, limit, phrases.Error("fault.limit", "limit", limit))
	defer cancel()
	b := &bed{ctx: bounded, o: o, servers: servers, scenario: s, mark: fmt.Sprintf("LOCK_GRADE=%d-%d", os.Getpid(),
		began.UnixNano())}
	if o.URL != "" {
		b.remote = newRemote(o.URL)
	}
	b.stock(2)
	v := b.run()
	b.cleanup()
	if v.grade == Ungraded && bounded.Err() != nil {
		v.why = words.Of(context.Cause(bounded))
	}
	verdict := b.shop.judge()
	result := Result{
		Scenario: s.Name, Grade: v.grade, Why: v.why.EN, ZH: v.why.ZH, Read: s.Read, Commands: b.commands,
		Orders: slices.Concat([]loadtest.Order{}, b.shop.orders), TookMS: ms(time.Since(began)),
	}
	if len(b.shop.orders) > 0 {
		result.Verdict = &verdict
	}
	result.Cell = lab.Cell{
		Scenario: s.Name, Code: o.figureName(), Observed: outcomes[v.grade], SKU: sku, StartedAt: began.UTC(),
		TookMS: result.TookMS, Evidence: []lab.Evidence{}, Events: b.drawn(verdict),
	}
	return result
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
