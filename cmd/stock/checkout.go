package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

// A checkoutRun holds the flags of "stock checkout".
type checkoutRun struct {
	runFlags
	plan   checkout.Plan
	tokens string // a command
	events string
}

func checkoutCommand(v voice) *cobra.Command {
	c := checkoutRun{runFlags: newRunFlags(v)}
	cmd := &cobra.Command{
		Use:  "checkout",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := c.read(cmd.Flags())
			if err == nil {
				err = c.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return explainLoad(err, c.token != "")
		},
	}
	c.add(cmd.Flags())
	noColorFlag(cmd, &c.noColor)
	return cmd
}

func (c *checkoutRun) add(flags *pflag.FlagSet) {
	c.addTarget(flags)
	flags.StringVar(&c.tokens, "token-command", "", "")

	flags.IntVarP(&c.plan.Visits, "visits", "n", 0, "")
	flags.DurationVar(&c.plan.Duration, "duration", 0, "")
	flags.IntVarP(&c.plan.Concurrency, "concurrency", "c", 30, "")
	flags.IntVar(&c.plan.Lines, "lines", 4, "")
	flags.StringVar(&c.quantity, "quantity", "1,2", "")
	flags.Int64Var(&c.plan.PerCustomer, "per-customer", 4, "")
	flags.Float64Var(&c.plan.Lost, "lost-replies", 0.1, "")

	flags.StringVar(&c.plan.SKU, "sku", "load-checkout", "")
	flags.IntVar(&c.plan.SKUs, "skus", 20, "")
	flags.StringVar(&c.skew, "skew", "zipf:1.1", "")
	flags.Int64Var(&c.plan.Stock, "stock", 100, "")
	flags.Uint64Var(&c.plan.Seed, "seed", 0, "")
	flags.DurationVar(&c.plan.Timeout, "timeout", 15*time.Second, "")

	flags.StringArrayVar(&c.at, "at", nil, "")
	flags.StringVar(&c.events, "events", "", "")
	c.addFiles(flags)
}

// checkoutVisits is how many visits there are if nothing is said: some ten seconds.
const checkoutVisits = 1000

// read makes the plan of the flags. Its errors name the flag.
func (c *checkoutRun) read(flags *pflag.FlagSet) (err error) {
	p := &c.plan
	if p.Quantities, p.At, err = c.parse(flags); err != nil {
		return err
	}
	p.Skew = loadtest.Skew(c.skew)
	if !flags.Changed("visits") && !flags.Changed("duration") {
		p.Visits = checkoutVisits
	}
	length := atLeast("visits", p.Visits, 1)
	if flags.Changed("duration") {
		length = atLeast("duration", int64(p.Duration), 1)
	}
	// In a Plan, 0 would mean the default.
	if err := errors.Join(
		length, atLeast("concurrency", p.Concurrency, 1), atLeast("lines", p.Lines, 1), atLeast("stock", p.Stock, 1),
		atLeast("skus", p.SKUs, 1), atLeast("per-customer", p.PerCustomer, 0),
	); err != nil {
		return err
	}
	if p.PerCustomer == 0 {
		p.PerCustomer = -1
	}
	if p.Lost == 0 {
		p.Lost = -1
	}
	c.plan, err = p.Filled()
	return err
}

// openFeed opens what --events names; nil: nothing.
func openFeed(where string) (checkout.Feed, func(), error) {
	if where == "" {
		return nil, func() {}, nil
	}
	if addr, is := strings.CutPrefix(where, "http://"); is {
		receiver, err := checkout.NewReceiver(strings.TrimSuffix(addr, "/"), nil)
		if err != nil {
			return nil, nil, wrong("events", err)
		}
		return receiver, func() { _ = receiver.Close() }, nil
	}
	at, is := strings.CutPrefix(where, "redis://")
	addr, name, _ := strings.Cut(at, "/")
	if !is || addr == "" {
		return nil, nil, wrong("events", failure("wrong.events"))
	}
	stream := checkout.NewStream(addr, cmp.Or(name, "orders"))
	return stream, func() { _ = stream.Close() }, nil
}

func (c *checkoutRun) run(ctx context.Context, stdout, stderr io.Writer) error {
	feed, closeFeed, err := openFeed(c.events)
	if err != nil {
		return err
	}
	defer closeFeed()
	client, err := loadtest.NewClient(c.url, c.token, c.plan.Concurrency)
	if err != nil {
		return err
	}
	defer client.Close()
	if c.tokens != "" {
		client.Carry(loadtest.NewWallet(c.tokens))
	}
	plan := c.plan
	var file *historyFile
	if c.history != "" {
		if file, err = openHistory(c.history, "", false); err != nil {
			return err
		}
		plan.History = file
	}
	plan.Log = commandLog(stderr)
	progress := report.ShowCheckoutProgress(stderr, string(c.voice), width(stderr))
	result, err := checkout.Run(ctx, []*loadtest.Client{client}, plan, feed, progress)
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	if result == nil {
		return err
	}
	if file != nil {
		fmt.Fprintln(stderr, c.say("wrote", "path", c.history))
	}
	shown := c.showCheckout(result, stdout, stderr)
	if err = errors.Join(err, shown); err != nil {
		return err
	}
	return checkoutStatus(result)
}

// readCheckout reads and judges the history of a checkout. It returns nil for a file that is none. With the error of a
// history that was cut off comes what it has.
func readCheckout(path string) (*checkout.Result, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil // the reader of other histories says so
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, 1<<16)
	if first, _ := in.Peek(256); !checkout.IsHistory(first) {
		return nil, nil
	}
	return checkout.ReadHistory(in)
}

// checkoutStatus returns the exit status of a checkout.
func checkoutStatus(r *checkout.Result) error {
	switch {
	case r.Interrupted:
		return exitError{code: exitInterrupted}
	case r.Verdict.Finding == loadtest.Broken:
		return exitError{code: exitVerdict}
	case r.Verdict.Finding == loadtest.Undecided:
		return exitError{code: exitUndecided}
	}
	return nil
}
