package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

// The scenarios of load.
const (
	deductions       = "deductions"
	checkoutScenario = "checkout"
)

// checkoutFlags are the flags of load that only a checkout has.
type checkoutFlags struct {
	lines       int
	perCustomer int64
	lost        float64
	events      string
	tokens      string // a command
}

func (f *checkoutFlags) add(flags *pflag.FlagSet) {
	flags.IntVar(&f.lines, "lines", 4, "")
	flags.Int64Var(&f.perCustomer, "per-customer", 4, "")
	flags.Float64Var(&f.lost, "lost-replies", 0.1, "")
	flags.StringVar(&f.events, "events", "", "")
	flags.StringVar(&f.tokens, "token-command", "", "")
}

// ofCheckout are the flags that a checkout has; ofCheckoutAlone those that deductions do not have.
func ofCheckout() []string {
	return append(
		ofCheckoutAlone(), "scenario", "url", "admin-token", "requests", "duration", "concurrency", "stock", "sku",
		"skus", "skew", "quantity", "seed", "timeout", "at", "history", "json", "html", "svg", "no-color", "lang",
	)
}

func ofCheckoutAlone() []string {
	return []string{"lines", "per-customer", "lost-replies", "events", "token-command"}
}

// checkScenario refuses flags that the scenario does not have.
func (f *loadFlags) checkScenario(flags *pflag.FlagSet) error {
	if f.scenario != deductions && f.scenario != checkoutScenario {
		return &loadtest.PlanError{Field: "scenario", Reason: phrases.Say("wrong.scenario")}
	}
	var err error
	flags.Visit(func(flag *pflag.Flag) {
		ours := f.scenario == checkoutScenario
		if ours && !slices.Contains(ofCheckout(), flag.Name) || !ours && slices.Contains(ofCheckoutAlone(), flag.Name) {
			err = &loadtest.PlanError{Field: flag.Name, Reason: phrases.Say("wrong.not-of", "scenario", f.scenario)}
		}
	})
	return err
}

// checkoutPlan returns the plan of the flags, whose defaults are others than those of deductions.
func (f *loadFlags) checkoutPlan(flags *pflag.FlagSet) (checkout.Plan, error) {
	p := checkout.Plan{
		SKU: f.plan.SKU, Skew: loadtest.Skew(f.skew), Duration: f.plan.Duration, Concurrency: f.concurrency,
		Timeout: f.plan.Timeout, Seed: f.plan.Seed, Stock: f.plan.Stock, Lines: f.checkout.lines,
		PerCustomer: f.checkout.perCustomer, Lost: f.checkout.lost, At: f.plan.At,
	}
	if flags.Changed("skus") {
		p.SKUs = f.plan.SKUs
	}
	if flags.Changed("quantity") {
		p.Quantities = f.plan.Quantities
		if len(p.Quantities) == 0 {
			p.Quantities = []int64{f.plan.Quantity}
		}
	}
	switch {
	case flags.Changed("requests"):
		p.Visits = f.requests
	case p.Duration == 0:
		p.Visits = checkoutVisits
	}
	for _, n := range []struct {
		flag  string
		value int64
	}{
		{"requests", int64(f.requests)},
		{"concurrency", int64(f.concurrency)},
		{"lines", int64(f.checkout.lines)},
		{"stock", f.plan.Stock},
		{"skus", int64(f.plan.SKUs)},
	} {
		if n.value < 1 { // in a Plan it would mean the default
			return p, &loadtest.PlanError{
				Field: n.flag, Reason: phrases.Say("wrong.least", "least", 1, "given", n.value),
			}
		}
	}
	if p.PerCustomer == 0 {
		p.PerCustomer = -1
	}
	if p.Lost == 0 {
		p.Lost = -1
	}
	return p.Filled()
}

// checkoutVisits is how many visits there are if nothing is said: some ten seconds.
const checkoutVisits = 1000

// openFeed opens what --events names; nil: nothing.
func openFeed(where string) (checkout.Feed, func(), error) {
	if where == "" {
		return nil, func() {}, nil
	}
	if addr, is := strings.CutPrefix(where, "http://"); is {
		receiver, err := checkout.NewReceiver(strings.TrimSuffix(addr, "/"), nil)
		if err != nil {
			return nil, nil, &loadtest.PlanError{Field: "events", Reason: words.Of(err)}
		}
		return receiver, func() { _ = receiver.Close() }, nil
	}
	at, is := strings.CutPrefix(where, "redis://")
	addr, name, _ := strings.Cut(at, "/")
	if !is || addr == "" {
		return nil, nil, &loadtest.PlanError{Field: "events", Reason: phrases.Say("wrong.events")}
	}
	stream := checkout.NewStream(addr, cmp.Or(name, "orders"))
	return stream, func() { _ = stream.Close() }, nil
}

// runCheckout is load --scenario checkout.
func (f *loadFlags) runCheckout(ctx context.Context, flags *pflag.FlagSet, stdout, stderr io.Writer) error {
	plan, err := f.checkoutPlan(flags)
	if err != nil {
		return err
	}
	feed, closeFeed, err := openFeed(f.checkout.events)
	if err != nil {
		return err
	}
	defer closeFeed()
	client, err := loadtest.NewClient(f.url, f.token, plan.Concurrency)
	if err != nil {
		return err
	}
	defer client.Close()
	if f.checkout.tokens != "" {
		client.Carry(loadtest.NewWallet(f.checkout.tokens))
	}
	var file *historyFile
	if f.history != "" {
		if file, err = openHistory(f.history, checkoutScenario, false); err != nil {
			return err
		}
		plan.History = file
	}
	plan.Log = commandLog(stderr)
	progress := report.ShowCheckoutProgress(stderr, string(f.voice), width(stderr))
	result, err := checkout.Run(ctx, []*loadtest.Client{client}, plan, feed, progress)
	if file != nil {
		err = errors.Join(err, file.Close())
		f.kept = append(f.kept, f.history)
	}
	if result == nil {
		return err
	}
	if err = errors.Join(err, f.showCheckout(result, stdout, stderr)); err != nil {
		return err
	}
	return checkoutStatus(result)
}

// showCheckout writes the result as text, or as JSON, and the files.
func (f *loadFlags) showCheckout(r *checkout.Result, stdout, stderr io.Writer) error {
	asJSON := func(w io.Writer) error { return checkout.WriteJSON(w, r) }
	var failed []error
	switch f.json {
	case "-":
		failed = append(failed, asJSON(stdout))
	default:
		if f.json != "" {
			failed = append(failed, writeJSON(f.json, asJSON))
			f.kept = append(f.kept, f.json)
		}
		failed = append(failed, report.WriteCheckout(stdout, r, f.style(stdout, f.noColor)))
	}
	if f.out.html != "" {
		write := func(w io.Writer) error { return report.WriteCheckoutHTML(w, r, commit(), string(f.voice)) }
		if err := writeFile(f.out.html, write); err != nil {
			failed = append(failed, fmt.Errorf("--html: %w", err))
		} else {
			f.kept = append(f.kept, f.out.html)
		}
	}
	if f.out.svg != "" {
		names, err := report.WriteCheckoutPictures(f.out.svg, string(f.voice), r)
		if err != nil {
			failed = append(failed, fmt.Errorf("--svg: %w", err))
		}
		fmt.Fprintln(stderr, f.say("wrote-pictures", "n", len(names), "path", f.out.svg))
	}
	for _, path := range f.kept {
		fmt.Fprintln(stderr, f.say("wrote", "path", path))
	}
	return errors.Join(failed...)
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

// showCheckout shows a checkout as load does.
func (a *reportAsk) showCheckout(r *checkout.Result, stdout, stderr io.Writer) error {
	load := loadFlags{voice: a.voice, json: a.json, noColor: a.noColor, out: a.reportFlags}
	return load.showCheckout(r, stdout, stderr)
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
