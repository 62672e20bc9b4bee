package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/lab/soak"
	"example.com/stock/stack"
)

const labSoakLong = `Soak sells with every strategy that promises safety in the whole cluster and has a fence, on both stores, through several
instances, while instances and servers are killed, paused and restarted, and links between them are cut, silenced and slowed:
one fault at a time, or two, with quiet between. The seed decides what is done to whom, for how long and in which order.

It ends with the faults by kind, the requests by outcome, and whether every unit was sold once: nothing oversold, nothing
lost, no order without a deduction, no deduction without an order, and everything healthy soon after the last fault.
An interrupt ends the sale early; the verdict comes all the same.

Exit status: 0 it holds; 3 it does not; 4 a server is not installed; 1 anything else; 130 interrupted, and it holds so far.`

// A soakRun is what "stock lab soak" was asked for.
type soakRun struct {
	options  soak.Options
	plan     bool
	json     string
	out, err io.Writer
}

func labSoakCommand() *cobra.Command {
	var r soakRun
	cmd := &cobra.Command{
		Use: "soak", Short: "Sell while everything fails at random, and judge whether a unit was lost", Long: labSoakLong, Args: cobra.NoArgs,
		Example: "  stock lab soak --for 10m\n  stock lab soak --for 2m --seed 7 --json soak.json\n  stock lab soak --for 2m --seed 7 --plan",
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if !cmd.Flags().Changed("seed") {
				r.options.Seed = uint64(rand.Uint32())
			}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&r.options.For, "for", 10*time.Minute, "how long faults are done")
	flags.Uint64Var(&r.options.Seed, "seed", 0, "what decides about the faults (default: one at random, which is printed)")
	flags.IntVar(&r.options.Instances, "instances", soak.Instances, "instances that sell")
	flags.DurationVar(&r.options.Within, "healthy-within", soak.Within, "how soon after the last fault everything must be healthy")
	flags.BoolVar(&r.plan, "plan", false, "only print what would be done")
	flags.StringVar(&r.json, "json", "", "write the report to this file")
	return cmd
}

func (r *soakRun) check() error {
	switch o := r.options; {
	case o.For < time.Second || o.For > 24*time.Hour:
		return fmt.Errorf("--for: must be from 1s to 24h, is %v", o.For)
	case o.Instances < 2 || o.Instances > 8:
		return fmt.Errorf("--instances: must be from 2 to 8, is %d", o.Instances)
	case o.Within <= 0:
		return fmt.Errorf("--healthy-within: must be more than 0s, is %v", o.Within)
	}
	return nil
}

func (r *soakRun) run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	fmt.Fprintf(r.out, "The same faults again: stock lab soak --for %v --seed %d --instances %d\n", r.options.For, r.options.Seed, r.options.Instances)
	soak.WritePlan(r.out, r.options.Plan())
	if r.plan {
		return nil
	}
	r.options.Server = func(e stack.Event) {
		if e.What == "missing" || e.What == "failed" {
			fmt.Fprintf(r.err, "  %-10s %-8s %s\n", e.Server, e.What, e.Detail)
		}
	}
	r.options.Say = func(at time.Duration, text string) { fmt.Fprintf(r.err, "  %6.1fs  %s\n", at.Seconds(), text) }
	report, err := soak.Run(ctx, r.options)
	var missing *soak.MissingError
	switch {
	case errors.As(err, &missing):
		return exitError{exitSkipped, err}
	case err != nil && ctx.Err() != nil:
		return exitError{exitInterrupted, errors.New("interrupted before there was a verdict; all that was started is stopped")}
	case err != nil:
		return err
	}
	soak.Write(r.out, &report)
	if r.json != "" {
		if err := writeJSON(r.json, &report); err != nil {
			return err
		}
	}
	switch {
	case len(report.Violations()) > 0:
		return exitError{exitVerdict, nil}
	case report.Interrupted:
		return exitError{exitInterrupted, nil}
	}
	return nil
}
