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
	"golang.org/x/term"

	"example.com/stock/loadtest"
)

// The exit statuses of load, besides 0 and 1.
const (
	exitTarget      = 2
	exitVerdict     = 3
	exitUndecided   = 4
	exitInterrupted = 130 // as shells say of a program that SIGINT ended
)

const loadLong = `Load sets the stock of a SKU, sends deductions to a running service from many workers that start at the
same moment, and judges from the replies and from the orders in the store whether stock was lost.

It is a closed loop: a worker sends its next request when it has the reply to the last one. Latencies are
service times. Ctrl-C ends the run early, and what was done is judged all the same.

Exit status:
    0  the strategy did what it promises ("none" promises nothing)
    1  wrong usage, or an internal error
    2  the target cannot be reached, refuses, or is not a stock service
    3  the strategy broke its promise; with --must-race also: one without a promise lost nothing
    4  the run could not be judged: nothing was sold, or the final state could not be read
  130  interrupted`

const loadExample = `  # 3000 requests from 30 workers for 100 units, under the ZooKeeper lock
  stock load --strategy zk-sequential -c 30 -n 3000 --stock 100

  # the race: no lock at all; exit status 3 if it does not show
  stock load --strategy none --must-race

  # all strategies that the target can run now, in one table
  stock load --strategy all -n 600 --stock 500

  # one try for the lock, on MySQL, with all replies in a file
  stock load --strategy redis-setnx --wait 0s --store mysql --history run.jsonl`

// loadFlags are what load was asked for.
type loadFlags struct {
	plan       loadtest.Plan
	strategies []string
	url, token string
	wait       time.Duration
	history    string
	json       string
	mustRace   bool
	noColor    bool
}

func loadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:     "load --strategy NAME[,NAME...]|all",
		Short:   "Put load on a running service, and judge whether stock was lost",
		Long:    loadLong,
		Example: loadExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("wait") {
				f.plan.Wait = &f.wait
			}
			if f.token == "" {
				f.token = os.Getenv("STOCK_ADMIN_TOKEN")
			}
			return explainLoad(f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr()), f.token != "")
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "http://localhost:8080", "the service, or the balancer in front of its instances")
	flags.StringSliceVarP(&f.strategies, "strategy", "s", nil, "strategies to run one after the other, or \"all\" that are available")
	flags.IntVarP(&f.plan.Concurrency, "concurrency", "c", 30, "workers, each with a connection of its own")
	flags.IntVarP(&f.plan.Requests, "requests", "n", 3000, "requests in all")
	flags.Int64Var(&f.plan.Stock, "stock", 100, "units to put in stock before each run")
	flags.StringVar(&f.plan.SKU, "sku", "", "SKU to sell; its stock and orders start anew (default \"load-\" and the strategy)")
	flags.Int64Var(&f.plan.Quantity, "quantity", 1, "units per request")
	flags.StringVar(&f.plan.Store, "store", "", "store of the stock, such as redis or mysql (default: the strategy's)")
	flags.DurationVar(&f.wait, "wait", 0, "longest wait for the lock; 0s tries once (default: the strategy's)")
	flags.DurationVar(&f.plan.Timeout, "timeout", 0, "longest wait for a reply (default: 30s more than --wait)")
	flags.StringVar(&f.token, "admin-token", "", "the service's admin token, to set stock (default: $STOCK_ADMIN_TOKEN)")
	flags.StringVar(&f.history, "history", "", "write every request to this file as JSON lines; of several strategies, each to FILE with its name before the extension")
	flags.StringVar(&f.json, "json", "", "write the result to this file as JSON; \"-\": to standard output, instead of the text")
	flags.BoolVar(&f.mustRace, "must-race", false, "exit with 3 if a strategy that does not exclude lost updates lost none")
	flags.BoolVar(&f.noColor, "no-color", false, "no colours on a terminal either (as NO_COLOR does)")
	return cmd
}

// explainLoad gives err its exit status, and names the flag that mends it.
func explainLoad(err error, token bool) error {
	var plan *loadtest.PlanError
	var target *loadtest.TargetError
	var problem *loadtest.Problem
	switch {
	case err == nil, errors.As(err, new(exitError)):
		return err
	case errors.As(err, &plan):
		return exitError{1, fmt.Errorf("--%s: %s", plan.Field, plan.Reason)}
	case errors.Is(err, context.Canceled):
		return exitError{exitInterrupted, errors.New("interrupted before the first request")}
	case errors.As(err, &problem) && problem.Status == 401 && token:
		return exitError{exitTarget, fmt.Errorf("%w\nThe token of --admin-token or STOCK_ADMIN_TOKEN is not the one that the service was started with", err)}
	case errors.As(err, &problem) && problem.Status == 401:
		return exitError{exitTarget, fmt.Errorf("%w\nGive the token that the service was started with: --admin-token TOKEN, or STOCK_ADMIN_TOKEN in the environment", err)}
	case errors.As(err, &target):
		return exitError{exitTarget, err}
	}
	return exitError{1, err}
}

func (f *loadFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	// In a Plan these zeros mean a default; on a command line they are mistakes.
	switch {
	case f.plan.Concurrency < 1:
		return &loadtest.PlanError{Field: "concurrency", Reason: "must be 1 or more"}
	case f.plan.Quantity < 1:
		return &loadtest.PlanError{Field: "quantity", Reason: "must be 1 or more"}
	}
	client, err := loadtest.NewClient(f.url, f.token, f.plan.Concurrency)
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
	if f.mustRace && !slices.ContainsFunc(chosen, func(s loadtest.Strategy) bool { return s.Promise.Scope != loadtest.Cluster }) {
		return &loadtest.PlanError{Field: "must-race", Reason: "needs a strategy that may lose updates, such as none; those chosen all promise not to"}
	}
	for _, sentence := range leftOut {
		fmt.Fprintln(stderr, sentence)
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
	}
	if err != nil {
		return err
	}
	return f.status(results)
}

// one runs one strategy, with its progress on stderr.
func (f *loadFlags) one(ctx context.Context, client *loadtest.Client, name string, several bool, stderr io.Writer) (*loadtest.Result, error) {
	plan := f.plan
	plan.Strategy = name
	if f.history == "" {
		return loadtest.Run(ctx, client, plan, loadtest.ShowProgress(stderr, name, width(stderr)))
	}
	path := f.history
	if several {
		ext := filepath.Ext(path)
		path = strings.TrimSuffix(path, ext) + "." + name + ext
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--history: %w", err)
	}
	plan.History = file
	result, err := loadtest.Run(ctx, client, plan, loadtest.ShowProgress(stderr, name, width(stderr)))
	return result, errors.Join(err, file.Close())
}

// show writes the result to where it was asked for.
func (f *loadFlags) show(results []*loadtest.Result, stdout io.Writer) error {
	if f.json != "" && f.json != "-" {
		file, err := os.Create(f.json)
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		if err := errors.Join(loadtest.WriteJSON(file, results), file.Close()); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
	}
	columns := width(stdout)
	style := loadtest.Style{Width: columns, Color: columns > 0 && !f.noColor && os.Getenv("NO_COLOR") == ""}
	switch {
	case f.json == "-":
		return loadtest.WriteJSON(stdout, results)
	case len(results) == 1:
		return loadtest.WriteReport(stdout, results[0], style)
	}
	return loadtest.WriteTable(stdout, results, style)
}

// status is the exit status of the worst run. All has been said by then.
func (f *loadFlags) status(results []*loadtest.Result) error {
	code := 0
	for _, r := range results {
		v := &r.Verdict
		switch {
		case r.Interrupted:
			return exitError{code: exitInterrupted}
		case v.Finding == loadtest.Broken && !v.Kept, f.mustRace && v.Luck:
			code = exitVerdict
		case !v.Kept && code == 0:
			code = exitUndecided
		}
	}
	if code != 0 {
		return exitError{code: code}
	}
	return nil
}

// width is the number of columns of w if it is a terminal, and otherwise 0.
func width(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return cmp.Or(columns, 120) // some terminals do not know their size
}
