package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
	"example.com/stock/loadtest/report"
	"example.com/stock/words"
)

const loadLong = `Load sets the stock of one or several SKUs, sends deductions to a running service, and judges
from the replies and from the orders in the store whether stock was lost.

Without --rate it is a closed loop: workers start at the same moment (or within --ramp-up), and each sends its
next request when it has the reply to the last one. Latencies are service times.

With --rate it is an open loop: requests are sent when they are due, whether or not the service keeps up, and
their latencies count from then, also if this program was late. What is due while --max-in-flight requests are
under way is dropped. Late and dropped requests are counted, and you are warned if they were more than 1 %.

Ctrl-C ends the run early, and what was done is judged all the same.

Exit status, the first that applies:
    1  wrong usage, or an internal error
    2  the target cannot be reached, refuses, or is not a stock service
  130  interrupted
    3  the strategy broke its promise; with --must-race also: one without a promise lost nothing
    5  an expectation (--expect) is not met
    4  the run could not be judged: nothing was sold, or the final state could not be read
    0  the strategy did what it promises ("none" promises nothing), and all expectations are met`

const loadExample = `  # 3000 requests from 30 workers for 100 units, under the ZooKeeper lock
  stock load --strategy zk-sequential -c 30 -n 3000 --stock 100

  # the race: no lock at all; exit status 3 if it does not show
  stock load --strategy none --must-race

  # all strategies that the target can run now, in one table
  stock load --strategies all -n 600 --stock 500

  # customers come at a rate that rises from 100 to 2000 a second, most of them for one of 20 SKUs
  stock load -s atomic --rate 100..2000 --duration 30s --warm-up 5s --skus 20 --skew hot:0.8 --quantity 1..5

  # what must be true of it; exit status 5 if it is not
  stock load -s redis-watchdog --expect 'oversold==0' --expect 'p99<50ms' --expect 'busy<5%'

  # one try for the lock, on MySQL, with all replies in a file
  stock load --strategy redis-setnx --wait 0s --store mysql --history run.jsonl`

func loadCommand(v voice) *cobra.Command {
	f := loadFlags{voice: v}
	f.out.voice = v
	cmd := &cobra.Command{
		Use:     "load --strategy NAME[,NAME...]|all",
		Short:   "Put load on a running service, and judge whether stock was lost",
		Long:    loadLong,
		Example: loadExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := f.read(cmd.Flags())
			if err == nil {
				err = f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return explainLoad(err, f.token != "")
		},
	}
	f.add(cmd.Flags())
	noColorFlag(cmd, &f.noColor)
	return cmd
}

// loadFlags holds the flags of load.
type loadFlags struct {
	voice
	plan       loadtest.Plan
	strategies []string
	url, token string
	mapping    *mapping.File // nil: the target is a service of ours

	// read makes these a part of the plan.
	concurrency, requests, maxInFlight int
	rate, skew, arrivals, quantity     string
	wait                               time.Duration
	expect                             []string
	thresholds                         []loadtest.Threshold

	history, json     string
	out               reportFlags
	mustRace, noColor bool

	kept []string // files written besides those of out
}

func (f *loadFlags) add(flags *pflag.FlagSet) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "strategies" {
			name = "strategy"
		}
		return pflag.NormalizedName(name)
	})
	flags.SortFlags = false
	flags.StringVar(&f.url, "url", "http://localhost:8080", "the service, or the balancer in front of its instances")
	flags.StringVar(
		&f.token, "admin-token", "", "the service's admin token, to set stock (default: $STOCK_ADMIN_TOKEN)",
	)
	flags.StringSliceVarP(
		&f.strategies, "strategy", "s", nil,
		"strategies to run one after the other, or \"all\" that are available (also --strategies)",
	)
	flags.StringVar(
		&f.plan.Mapping, "mapping", "",
		"file that describes somebody else's inventory API, to load that instead (see loadtest/README.md)",
	)
	flags.StringVar(&f.plan.Store, "store", "", "store of the stock, such as redis or mysql (default: the strategy's)")

	flags.IntVarP(&f.requests, "requests", "n", 3000, "requests in all (default 3000, unless --duration is given)")
	flags.Lookup("requests").DefValue = "0"
	flags.DurationVar(&f.plan.Duration, "duration", 0, "send requests for so long, instead of --requests")
	flags.IntVarP(&f.concurrency, "concurrency", "c", 30, "closed loop: workers, each with a connection of its own")
	flags.DurationVar(
		&f.plan.RampUp, "ramp-up", 0,
		"closed loop: workers start evenly within this time (default: all at the same moment)",
	)
	flags.StringVar(
		&f.rate, "rate", "",
		"open loop: requests per second, such as 1000, or 100..1000 to rise from 100 to 1000 within --duration",
	)
	flags.StringVar(
		&f.arrivals, "arrivals", "",
		"open loop: poisson (default; as of customers who know nothing of each other) or even",
	)
	flags.IntVar(
		&f.maxInFlight, "max-in-flight", 1000,
		"open loop: drop what is due while so many requests are under way",
	)
	flags.DurationVar(
		&f.plan.WarmUp, "warm-up", 0,
		"first the same load for so long on SKUs of its own, which is in no figure",
	)
	flags.BoolVar(&f.plan.Cold, "cold", false, "do not open the connections before the start")

	flags.Int64Var(&f.plan.Stock, "stock", 100, "units to put in stock of each SKU before each run")
	flags.StringVar(
		&f.plan.SKU, "sku", "",
		"SKU to sell; its stock and orders start anew (default \"load-\" and the strategy)",
	)
	flags.IntVar(&f.plan.SKUs, "skus", 1, "so many SKUs, named like --sku with -1, -2 ... after it")
	flags.StringVar(
		&f.skew, "skew", "",
		"how likely each of --skus is: uniform (default), zipf:1.1, or hot:0.8 (the first gets 0.8 of the requests)",
	)
	flags.StringVar(&f.quantity, "quantity", "1", "units per request: 3; or any of 1..5; or any of 1,2,5")
	flags.Uint64Var(
		&f.plan.Seed, "seed", 0,
		"of SKUs, quantities and arrivals: the same seed, the same requests (default: a new one)",
	)
	flags.DurationVar(&f.wait, "wait", 0, "longest wait for the lock; 0s tries once (default: the strategy's)")
	flags.BoolVar(
		&f.plan.Shared, "shared", false,
		"others may sell from the same SKUs: their orders are counted in, and leave nothing undecided",
	)
	flags.DurationVar(&f.plan.Timeout, "timeout", 0, "longest wait for a reply (default: 30s more than --wait)")

	flags.StringArrayVar(
		&f.expect,
		"expect",
		nil,
		"what must be true of each run, such as oversold==0, lost_updates==0, 'p99<50ms', 'busy<5%' or "+
			"'rate>=1000' (repeatable; a wrong name lists all)",
	)
	flags.BoolVar(
		&f.mustRace, "must-race", false,
		"exit with 3 if a strategy that does not exclude lost updates lost none",
	)
	flags.StringVar(
		&f.history,
		"history",
		"",
		"write every request to this file as JSON lines; of several strategies, each to FILE with its name before "+
			"the extension",
	)
	flags.StringVar(
		&f.json, "json", "",
		"write the result to this file as JSON; \"-\": to standard output, instead of the text",
	)
	f.out.add(flags)
}

// read returns the plan of the flags. Its errors are PlanErrors that name the flag.
func (f *loadFlags) read(flags *pflag.FlagSet) error {
	f.token = cmp.Or(f.token, os.Getenv("STOCK_ADMIN_TOKEN"))
	bad := func(flag string, err error) error {
		return &loadtest.PlanError{Field: flag, Reason: words.Of(err)}
	}
	var err error
	if f.rate != "" {
		if f.plan.Rate, err = loadtest.ParseRate(f.rate); err != nil {
			return bad("rate", err)
		}
	}
	if f.plan.Quantities, err = loadtest.ParseQuantities(f.quantity); err != nil {
		return bad("quantity", err)
	}
	if len(f.plan.Quantities) == 1 {
		f.plan.Quantity, f.plan.Quantities = f.plan.Quantities[0], nil
	}
	for _, text := range f.expect {
		threshold, err := loadtest.ParseThreshold(text)
		if err != nil {
			return bad("expect", err)
		}
		f.thresholds = append(f.thresholds, threshold)
	}
	// All strategies share one seed, so that each gets the same requests.
	f.plan.Seed = cmp.Or(f.plan.Seed, loadtest.NewSeed())
	f.plan.Skew, f.plan.Arrivals = loadtest.Skew(f.skew), loadtest.Arrivals(f.arrivals)
	if flags.Changed("wait") {
		f.plan.Wait = &f.wait
	}
	// A number that was not given counts only if it applies. Zero means the default in a Plan, and is an error on a
	// command line.
	for _, n := range []struct {
		flag  string
		value int
		plan  *int
		given bool
	}{
		{"requests", f.requests, &f.plan.Requests, f.plan.Duration == 0},
		{"concurrency", f.concurrency, &f.plan.Concurrency, !f.plan.Open()},
		{"max-in-flight", f.maxInFlight, &f.plan.MaxInFlight, f.plan.Open()},
		{"skus", f.plan.SKUs, &f.plan.SKUs, true},
	} {
		switch {
		case !n.given && !flags.Changed(n.flag):
		case n.value < 1:
			return bad(n.flag, failure("wrong.least", "least", 1, "given", n.value))
		default:
			*n.plan = n.value
		}
	}
	if flags.Changed("duration") && f.plan.Duration == 0 {
		return bad("duration", failure("wrong.no-duration"))
	}
	if err := checkFile(f.json); err != nil { // "-" is in this folder, which exists
		return bad("json", err)
	}
	if err := f.out.check(); err != nil {
		return err
	}
	if err := f.readTarget(flags); err != nil {
		return err
	}
	return f.plan.Check()
}

// A target is a service to load, or to judge. Close closes its connections.
type target interface {
	loadtest.Target
	Close()
}

// openTarget opens the service at url: ours, or a foreign one that file describes.
func openTarget(url, token string, file *mapping.File, connections int) (target, error) {
	if file != nil {
		return mapping.NewTarget(url, token, connections, file)
	}
	return loadtest.NewClient(url, token, connections)
}

// readMapping reads the file of --mapping. Its errors are PlanErrors.
func readMapping(path string) (*mapping.File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, &loadtest.PlanError{Field: "mapping", Reason: words.Of(err)}
	}
	m, err := mapping.Parse(text)
	if err != nil {
		reason := phrases.Say("wrong.no-mapping", "path", path, "why", err)
		return nil, &loadtest.PlanError{Field: "mapping", Reason: reason}
	}
	return m, nil
}

// readTarget reads the file of --mapping, if there is one. Then there is one strategy, and flags for our service are
// errors.
func (f *loadFlags) readTarget(flags *pflag.FlagSet) error {
	if f.plan.Mapping == "" {
		return nil
	}
	for _, flag := range []string{"strategy", "store", "wait", "must-race"} {
		if flags.Changed(flag) {
			return &loadtest.PlanError{Field: flag, Reason: phrases.Say("wrong.with-mapping")}
		}
	}
	m, err := readMapping(f.plan.Mapping)
	if err != nil {
		return err
	}
	f.mapping, f.strategies = m, []string{m.Name()}
	return nil
}

func (f *loadFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	client, err := openTarget(f.url, f.token, f.mapping, f.plan.Connections())
	if err != nil {
		return err
	}
	defer client.Close()
	catalogue, err := client.Strategies(ctx)
	if err != nil {
		return err
	}
	chosen, leftOut, err := loadtest.Choose(catalogue, f.strategies, f.plan.Store)
	if err != nil {
		return err
	}
	if f.mustRace &&
		!slices.ContainsFunc(chosen, func(s loadtest.Strategy) bool { return s.Promise.Scope != loadtest.Cluster }) {
		return &loadtest.PlanError{
			Field:  "must-race",
			Reason: phrases.Say("wrong.must-race"),
		}
	}
	for _, sentence := range leftOut {
		fmt.Fprintln(stderr, f.in(sentence))
	}
	var results []*loadtest.Result
	for _, s := range chosen {
		result, failed := f.one(ctx, client, s.Name, len(chosen) > 1, stderr)
		if result != nil {
			results = append(results, result)
		}
		if err = failed; err != nil || result.Interrupted {
			break
		}
	}
	if len(results) > 0 {
		err = errors.Join(err, f.show(results, stdout))
		for _, path := range f.kept {
			fmt.Fprintln(stderr, f.say("wrote", "path", path))
		}
		page := report.Page{Lang: string(f.voice), Groups: []report.Group{{Runs: results}}}
		err = errors.Join(err, f.out.write(page, stderr))
	}
	if err != nil {
		return err
	}
	return f.status(results)
}

// one runs one strategy, with its progress on stderr.
func (f *loadFlags) one(
	ctx context.Context,
	client loadtest.Target,
	name string,
	several bool,
	stderr io.Writer,
) (*loadtest.Result, error) {
	plan := f.plan
	plan.Strategy = name
	var file *historyFile
	if f.history != "" {
		var err error
		if file, err = openHistory(f.history, name, several); err != nil {
			return nil, err
		}
		plan.History = file
	}
	result, err := loadtest.Run(ctx, client, plan, report.ShowProgress(stderr, name, string(f.voice), width(stderr)))
	if file != nil {
		err = errors.Join(err, file.Close())
		f.kept = append(f.kept, file.file.Name())
	}
	if result != nil {
		for _, threshold := range f.thresholds {
			result.Expected = append(result.Expected, threshold.Check(result))
		}
	}
	return result, err
}

// show writes the results as text, or as JSON to where --json says.
func (f *loadFlags) show(results []*loadtest.Result, stdout io.Writer) error {
	asJSON := func(w io.Writer) error { return loadtest.WriteJSON(w, results) }
	switch f.json {
	case "":
	case "-":
		return asJSON(stdout)
	default:
		if err := writeJSON(f.json, asJSON); err != nil {
			return err
		}
		f.kept = append(f.kept, f.json)
	}
	s := f.style(stdout, f.noColor)
	var err error
	if len(results) == 1 {
		err = report.WriteReport(stdout, results[0], s)
	} else {
		err = report.WriteTable(stdout, results, s)
	}
	return errors.Join(err, report.WriteExpectations(stdout, results, s))
}

// A historyFile is the file of --history. It keeps its old content until there is something new to write: if the target
// is down, the history of the last run survives.
type historyFile struct {
	file    *os.File
	written bool
}

// openHistory opens path. If there are several strategies, it inserts the name before the extension.
func openHistory(path, strategy string, several bool) (*historyFile, error) {
	if several {
		ext := filepath.Ext(path)
		path = strings.TrimSuffix(path, ext) + "." + strategy + ext
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	return &historyFile{file: file}, nil
}

// Write empties the file before the first byte.
func (h *historyFile) Write(p []byte) (int, error) {
	if !h.written {
		h.written = true
		// An irregular file, such as a pipe, has nothing to empty.
		if info, err := h.file.Stat(); err == nil && info.Mode().IsRegular() {
			if err := h.file.Truncate(0); err != nil {
				return 0, err
			}
		}
	}
	return h.file.Write(p)
}

// Close removes the file if nothing was written to it.
func (h *historyFile) Close() error {
	info, err := h.file.Stat()
	empty := err == nil && info.Mode().IsRegular() && info.Size() == 0
	err = h.file.Close()
	if empty && !h.written {
		err = errors.Join(err, os.Remove(h.file.Name()))
	}
	return err
}

// explainLoad returns err with its exit status, and names the flag to change.
func explainLoad(err error, token bool) error {
	var plan *loadtest.PlanError
	var target *loadtest.TargetError
	var problem *loadtest.Problem
	switch {
	case err == nil, errors.As(err, new(exitError)):
		return err
	case errors.As(err, &plan):
		return exitError{1, failure("wrong.flag", "flag", plan.Field, "reason", plan.Reason)}
	case errors.Is(err, context.Canceled):
		return exitError{exitInterrupted, failure("interrupted.not-begun")}
	case errors.As(err, &problem) && problem.Status == 401 && token:
		return exitError{
			exitTarget,
			failure("token.wrong", "why", err),
		}
	case errors.As(err, &problem) && problem.Status == 401:
		return exitError{
			exitTarget,
			failure("token.missing", "why", err),
		}
	case errors.As(err, &target):
		return exitError{exitTarget, err}
	}
	return exitError{1, err}
}

// status returns the exit status of the worst run. Everything has been printed by then.
func (f *loadFlags) status(results []*loadtest.Result) error {
	rank := 0
	codes := []int{0, exitUndecided, exitExpectation, exitVerdict, exitInterrupted} // from good to bad
	for _, r := range results {
		v := &r.Verdict
		code := 0
		switch {
		case r.Interrupted:
			code = exitInterrupted
		case v.Finding == loadtest.Broken && !v.Kept, f.mustRace && v.Luck:
			code = exitVerdict
		case slices.ContainsFunc(r.Expected, func(e loadtest.Expectation) bool { return !e.Met }):
			code = exitExpectation
		case !v.Kept:
			code = exitUndecided
		}
		rank = max(rank, slices.Index(codes, code))
	}
	if rank > 0 {
		return exitError{code: codes[rank]}
	}
	return nil
}
