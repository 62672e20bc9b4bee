package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// loadFlags are what load was asked for.
type loadFlags struct {
	plan       loadtest.Plan
	strategies []string
	url, token string
	mapping    *mapping.File // nil: the target is a service of ours

	// What read makes part of the plan.
	concurrency, requests, maxInFlight int
	rate, skew, arrivals, quantity     string
	wait                               time.Duration
	expect                             []string
	thresholds                         []loadtest.Threshold

	history, json     string
	out               reportFlags
	mustRace, noColor bool

	kept []string // files that were written, besides out's
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
	flags.StringVar(&f.token, "admin-token", "", "the service's admin token, to set stock (default: $STOCK_ADMIN_TOKEN)")
	flags.StringSliceVarP(&f.strategies, "strategy", "s", nil, "strategies to run one after the other, or \"all\" that are available (also --strategies)")
	flags.StringVar(&f.plan.Mapping, "mapping", "", "file that describes somebody else's inventory API, to load that instead (see loadtest/README.md)")
	flags.StringVar(&f.plan.Store, "store", "", "store of the stock, such as redis or mysql (default: the strategy's)")

	flags.IntVarP(&f.requests, "requests", "n", 3000, "requests in all (default 3000, unless --duration is given)")
	flags.Lookup("requests").DefValue = "0"
	flags.DurationVar(&f.plan.Duration, "duration", 0, "send requests for so long, instead of --requests")
	flags.IntVarP(&f.concurrency, "concurrency", "c", 30, "closed loop: workers, each with a connection of its own")
	flags.DurationVar(&f.plan.RampUp, "ramp-up", 0, "closed loop: workers start evenly within this time (default: all at the same moment)")
	flags.StringVar(&f.rate, "rate", "", "open loop: requests per second, such as 1000, or 100..1000 to rise from 100 to 1000 within --duration")
	flags.StringVar(&f.arrivals, "arrivals", "", "open loop: poisson (default; as of customers who know nothing of each other) or even")
	flags.IntVar(&f.maxInFlight, "max-in-flight", 1000, "open loop: drop what is due while so many requests are under way")
	flags.DurationVar(&f.plan.WarmUp, "warm-up", 0, "first the same load for so long on SKUs of its own, which is in no figure")
	flags.BoolVar(&f.plan.Cold, "cold", false, "do not open the connections before the start")

	flags.Int64Var(&f.plan.Stock, "stock", 100, "units to put in stock of each SKU before each run")
	flags.StringVar(&f.plan.SKU, "sku", "", "SKU to sell; its stock and orders start anew (default \"load-\" and the strategy)")
	flags.IntVar(&f.plan.SKUs, "skus", 1, "so many SKUs, named like --sku with -1, -2 ... after it")
	flags.StringVar(&f.skew, "skew", "", "how likely each of --skus is: uniform (default), zipf:1.1, or hot:0.8 (the first gets 0.8 of the requests)")
	flags.StringVar(&f.quantity, "quantity", "1", "units per request: 3; or any of 1..5; or any of 1,2,5")
	flags.Uint64Var(&f.plan.Seed, "seed", 0, "of SKUs, quantities and arrivals: the same seed, the same requests (default: a new one)")
	flags.DurationVar(&f.wait, "wait", 0, "longest wait for the lock; 0s tries once (default: the strategy's)")
	flags.BoolVar(&f.plan.Shared, "shared", false, "others may sell from the same SKUs: their orders are counted in, and leave nothing undecided")
	flags.DurationVar(&f.plan.Timeout, "timeout", 0, "longest wait for a reply (default: 30s more than --wait)")

	flags.StringArrayVar(&f.expect, "expect", nil, "what must be true of each run, such as oversold==0, lost_updates==0, 'p99<50ms', 'busy<5%' or 'rate>=1000' (repeatable; a wrong name lists all)")
	flags.BoolVar(&f.mustRace, "must-race", false, "exit with 3 if a strategy that does not exclude lost updates lost none")
	flags.StringVar(&f.history, "history", "", "write every request to this file as JSON lines; of several strategies, each to FILE with its name before the extension")
	flags.StringVar(&f.json, "json", "", "write the result to this file as JSON; \"-\": to standard output, instead of the text")
	f.out.add(flags)
	flags.BoolVar(&f.noColor, "no-color", false, "no colours on a terminal either (as NO_COLOR does)")
}

// read makes the plan of the flags. Its errors are PlanErrors, named after the flag.
func (f *loadFlags) read(flags *pflag.FlagSet) error {
	f.token = cmp.Or(f.token, os.Getenv("STOCK_ADMIN_TOKEN"))
	bad := func(flag string, err error) error {
		return &loadtest.PlanError{Field: flag, Reason: err.Error()}
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
	// One for all strategies, so that each gets the same requests.
	f.plan.Seed = cmp.Or(f.plan.Seed, loadtest.NewSeed())
	f.plan.Skew, f.plan.Arrivals = loadtest.Skew(f.skew), loadtest.Arrivals(f.arrivals)
	if flags.Changed("wait") {
		f.plan.Wait = &f.wait
	}
	// A number that was not given stands in nobody's way; zero, which in a Plan means a default, is a mistake on a command line.
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
			return bad(n.flag, fmt.Errorf("must be 1 or more, is %d", n.value))
		default:
			*n.plan = n.value
		}
	}
	if flags.Changed("duration") && f.plan.Duration == 0 {
		return bad("duration", errors.New("must be longer than 0s"))
	}
	if f.json != "" && f.json != "-" {
		if _, err := os.Stat(filepath.Dir(f.json)); err != nil {
			return bad("json", err) // now, not when all has been done
		}
	}
	if err := f.out.check(); err != nil {
		return err
	}
	if err := f.describe(flags); err != nil {
		return err
	}
	return f.plan.Check()
}
