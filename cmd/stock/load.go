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
)

func loadCommand(v voice) *cobra.Command {
	f := loadFlags{runFlags: newRunFlags(v)}
	cmd := &cobra.Command{
		Use:  "load --strategy NAME[,NAME...]|all",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.print {
				return explainLoad(f.printMapping(cmd.OutOrStdout()), false)
			}
			err := f.read(cmd.Flags())
			switch {
			case err != nil:
			case f.try:
				err = f.tryMapping(cmd.Context(), cmd.OutOrStdout())
			default:
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
	runFlags
	plan       loadtest.Plan
	strategies []string
	mapping    *mapping.File // nil: the target is a service of ours

	// read makes these a part of the plan.
	concurrency, requests, maxInFlight int
	rate, arrivals                     string
	wait, recheck                      time.Duration
	expect                             []string
	thresholds                         []loadtest.Threshold

	mustRace bool
	print    bool // the mapping file, and nothing else
	try      bool // the mapping, in place of a load

	kept []string // files written besides the page
}

func (f *loadFlags) add(flags *pflag.FlagSet) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "strategies" {
			name = "strategy"
		}
		return pflag.NormalizedName(name)
	})
	f.addTarget(flags)
	flags.StringSliceVarP(&f.strategies, "strategy", "s", nil, "")
	flags.StringVar(&f.plan.Mapping, "mapping", "", "")
	flags.BoolVar(&f.print, "print", false, "")
	flags.BoolVar(&f.try, "try", false, "")
	flags.StringVar(&f.plan.Store, "store", "", "")

	flags.IntVarP(&f.requests, "requests", "n", 3000, "")
	flags.Lookup("requests").DefValue = "0"
	flags.DurationVar(&f.plan.Duration, "duration", 0, "")
	flags.IntVarP(&f.concurrency, "concurrency", "c", 30, "")
	flags.StringVar(&f.rate, "rate", "", "")
	flags.StringVar(&f.arrivals, "arrivals", "", "")
	flags.IntVar(&f.maxInFlight, "max-in-flight", 1000, "")
	flags.DurationVar(&f.plan.WarmUp, "warm-up", 0, "")

	flags.Int64Var(&f.plan.Stock, "stock", 100, "")
	flags.StringVar(&f.plan.SKU, "sku", "", "")
	flags.IntVar(&f.plan.SKUs, "skus", 1, "")
	flags.StringVar(&f.skew, "skew", "", "")
	flags.StringVar(&f.quantity, "quantity", "1", "")
	flags.Uint64Var(&f.plan.Seed, "seed", 0, "")
	flags.DurationVar(&f.wait, "wait", 0, "")
	flags.BoolVar(&f.plan.Shared, "shared", false, "")
	flags.DurationVar(&f.plan.Timeout, "timeout", 0, "")
	flags.DurationVar(&f.recheck, "recheck", loadtest.Recheck, "")

	flags.StringArrayVar(&f.expect, "expect", nil, "")
	flags.StringArrayVar(&f.at, "at", nil, "")
	flags.BoolVar(&f.mustRace, "must-race", false, "")
	f.addFiles(flags)
}

// read returns the plan of the flags. Its errors name the flag.
func (f *loadFlags) read(flags *pflag.FlagSet) error {
	var err error
	if f.plan.Quantities, f.plan.At, err = f.parse(flags); err != nil {
		return err
	}
	if f.rate != "" {
		if f.plan.Rate, err = loadtest.ParseRate(f.rate); err != nil {
			return wrong("rate", err)
		}
	}
	if len(f.plan.Quantities) == 1 {
		f.plan.Quantity, f.plan.Quantities = f.plan.Quantities[0], nil
	}
	for _, text := range f.expect {
		threshold, err := loadtest.ParseThreshold(text)
		if err != nil {
			return wrong("expect", err)
		}
		f.thresholds = append(f.thresholds, threshold)
	}
	// All strategies share one seed, so that each gets the same requests.
	f.plan.Seed = cmp.Or(f.plan.Seed, loadtest.NewSeed())
	f.plan.Skew, f.plan.Arrivals = loadtest.Skew(f.skew), loadtest.Arrivals(f.arrivals)
	if flags.Changed("wait") {
		f.plan.Wait = &f.wait
	}
	f.plan.Recheck = &f.recheck
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
			return wrong(n.flag, failure("wrong.least", "least", 1, "given", n.value))
		default:
			*n.plan = n.value
		}
	}
	if flags.Changed("duration") && f.plan.Duration == 0 {
		return wrong("duration", failure("wrong.no-duration"))
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
func (v voice) openTarget(url, token string, file *mapping.File, connections int) (target, error) {
	if file != nil {
		return mapping.NewTarget(url, token, connections, file)
	}
	client, err := loadtest.NewClient(url, token, connections)
	if err != nil {
		return nil, err
	}
	client.Speak(string(v))
	return client, nil
}

// readTarget reads the file of --mapping, if there is one. Then there is one strategy, and flags for our service are
// errors.
func (f *loadFlags) readTarget(flags *pflag.FlagSet) error {
	switch {
	case f.plan.Mapping == "" && f.try:
		return wrong("try", failure("wrong.try-alone"))
	case f.plan.Mapping == "":
		return nil
	}
	for _, flag := range []string{"strategy", "store", "wait", "must-race"} {
		if flags.Changed(flag) {
			return wrong(flag, failure("wrong.with-mapping"))
		}
	}
	m, err := readMapping(f.plan.Mapping)
	if err != nil {
		return err
	}
	switch {
	case f.plan.SKU == "" && len(m.SKUs()) == 0:
		return wrong("sku", failure("wrong.sku-with-mapping"))
	case f.plan.SKU == "":
		f.plan.Listed = m.SKUs()
	}
	if err := hasIDs(m, f.plan.Names()...); err != nil {
		return err
	}
	if len(m.SKUs()) > 0 && f.plan.WarmUp > 0 {
		return wrong("warm-up", failure("wrong.warm-up-with-ids"))
	}
	f.mapping, f.strategies, f.plan.Late = m, []string{m.Name()}, m.Late()
	return nil
}

func (f *loadFlags) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	client, err := f.openTarget(f.url, f.token, f.mapping, f.plan.Connections())
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
		return wrong("must-race", failure("wrong.must-race"))
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
		shown := f.show(results, stdout)
		if shown == nil && f.json != "" && f.json != "-" {
			f.kept = append(f.kept, f.json)
		}
		err = errors.Join(err, shown)
		for _, path := range f.kept {
			fmt.Fprintln(stderr, f.say("wrote", "path", path))
		}
		page := report.Page{Lang: string(f.voice), Commit: commit(), Groups: []report.Group{{Runs: results}}}
		err = errors.Join(err, f.writeReport(page, stderr))
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
	plan.Strategy, plan.Log = name, commandLog(stderr)
	var file *historyFile
	if f.history != "" {
		var err error
		if file, err = openHistory(f.history, name, several); err != nil {
			return nil, err
		}
		plan.History = file
	}
	progress := report.ShowProgress(stderr, name, string(f.voice), width(stderr))
	result, err := loadtest.Run(ctx, client, plan, progress)
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

// commandLog returns where the commands of --at and their output are shown. On a terminal the line of the progress is
// cleared first.
func commandLog(stderr io.Writer) io.Writer {
	if width(stderr) == 0 {
		return stderr
	}
	return clearing{stderr}
}

// clearing clears the current line of a terminal before each write.
type clearing struct{ to io.Writer }

func (c clearing) Write(text []byte) (int, error) {
	_, err := fmt.Fprintf(c.to, clearLine+"%s", text)
	return len(text), err
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
		path = strings.TrimSuffix(path, ext) + "." + report.FileName(strategy) + ext
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return nil, wrong("history", err)
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
		return exitError{exitTarget, failure("token.wrong", "why", err)}
	case errors.As(err, &problem) && problem.Status == 401:
		return exitError{exitTarget, failure("token.missing", "why", err)}
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
