package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
	"example.com/stock/strategy"
)

// The classic: so many units, so many requests.
const (
	demoStock    = 100
	demoRequests = 30
)

// An act is one part of the demonstration: the same run with every strategy.
type act struct {
	title                 string
	concurrency, requests int
}

// show plays all acts against the service at url.
func (d *demo) show(ctx context.Context, url string) error {
	client, err := loadtest.NewClient(url, demoToken, d.concurrency)
	if err != nil {
		return err
	}
	defer client.Close()
	casts, err := d.casts(ctx, client)
	if err != nil {
		return err
	}
	for _, a := range []act{
		{fmt.Sprintf("1. One request at a time: %d units, %d requests, so %d must be left.", demoStock, demoRequests, demoStock-demoRequests), 1, demoRequests},
		{fmt.Sprintf("2. The same %d requests, all at once. %d left, or as many as were not sold, means that no update was lost.", demoRequests, demoStock-demoRequests), demoRequests, demoRequests},
		{fmt.Sprintf("3. More requests than stock: %d requests for %d units, %d at once. Who sells more than there was?", d.requests, demoStock, d.concurrency), d.concurrency, d.requests},
	} {
		if err := d.play(ctx, client, a, casts); err != nil {
			return err
		}
	}
	return nil
}

// A cast is a strategy on a store.
type cast struct {
	strategy loadtest.Strategy
	store    string
}

// casts are the runs of each act, and names on stderr what cannot run and why.
func (d *demo) casts(ctx context.Context, client *loadtest.Client) ([]cast, error) {
	catalogue, err := client.Strategies(ctx)
	if err != nil {
		return nil, err
	}
	stores := []string{d.store}
	if d.store == "both" {
		stores = []string{strategy.Redis, strategy.MySQL}
	}
	var list []cast
	var absent leftOut
	for _, s := range catalogue {
		if !slices.Contains(d.strategies, "all") && !slices.Contains(d.strategies, s.Name) {
			continue
		}
		for _, store := range stores {
			reason, down := s.DownStores[store]
			switch {
			case !slices.Contains(s.Stores, store):
				continue // not what this strategy is for
			case !s.Available:
				absent.add(s.Reason, s.Name+" on "+store)
			case down:
				absent.add(reason, s.Name+" on "+store)
			default:
				list = append(list, cast{s, store})
			}
		}
	}
	absent.print(d.err)
	if len(list) == 0 {
		return nil, fmt.Errorf("none of the strategies %v can run on store %s", d.strategies, d.store)
	}
	return list, nil
}

// leftOut is what cannot run, by reason, in the order in which it was found.
type leftOut struct {
	reasons []string
	runs    map[string][]string
}

func (l *leftOut) add(reason, run string) {
	if l.runs == nil {
		l.runs = make(map[string][]string)
	}
	if l.runs[reason] == nil {
		l.reasons = append(l.reasons, reason)
	}
	l.runs[reason] = append(l.runs[reason], run)
}

func (l *leftOut) print(w io.Writer) {
	for _, reason := range l.reasons {
		fmt.Fprintf(w, "  not shown  %s\n             because %s\n", strings.Join(l.runs[reason], ", "), reason)
	}
}

func (d *demo) play(ctx context.Context, client *loadtest.Client, a act, casts []cast) error {
	fmt.Fprintf(d.out, "\n%s\n\n", a.title)
	var results []*loadtest.Result
	for _, c := range casts {
		result, err := d.sell(func(p loadtest.Plan) (*loadtest.Result, error) { return loadtest.Run(ctx, client, p, d.ticker(c)) }, a, c)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		results = append(results, result)
	}
	d.results = append(d.results, results...)
	d.groups = append(d.groups, report.Group{Title: a.title, Runs: results})
	columns := width(d.out)
	return report.WriteTable(d.out, results, report.Style{
		Width: columns, Color: columns > 0 && !d.noColor && os.Getenv("NO_COLOR") == "",
	})
}

// ticker shows the progress of a run on a terminal. Elsewhere 39 lines would drown the tables.
func (d *demo) ticker(c cast) func(loadtest.Progress) {
	columns := width(d.err)
	if columns == 0 {
		return nil
	}
	return report.ShowProgress(d.err, c.strategy.Name+" on "+c.store, columns)
}

// summary says in words what was seen.
func (d *demo) summary(took time.Duration) string {
	var oversold, lost int64
	kept, racy := 0, 0
	for _, r := range d.results {
		if r.Verdict.Kept {
			kept++
		}
		if r.Verdict.RaceSeen {
			racy++
			oversold += r.Verdict.OversoldUnits
			lost += r.Verdict.LostUnits
		}
	}
	return fmt.Sprintf("%d runs in %.0f s: %d were as promised. %d showed the race: %d units oversold, %d updates lost.",
		len(d.results), took.Seconds(), kept, racy, oversold, lost)
}

// status is the exit status: a promise that was broken, or a race that did not show where nothing keeps it from showing.
func (d *demo) status() error {
	unguarded, raced := 0, 0
	for _, r := range d.results {
		v := &r.Verdict
		if !v.Kept {
			return exitError{exitVerdict, fmt.Errorf("%s on %s: %s", r.Plan.Strategy, r.Plan.Store, v.Sentence)}
		}
		if r.Strategy.Promise.Scope == loadtest.Nowhere && r.Plan.Concurrency > 1 {
			unguarded++
			if v.RaceSeen {
				raced++
			}
		}
	}
	if unguarded > 0 && raced == 0 {
		return exitError{exitVerdict, fmt.Errorf("the race did not show in any of %d runs without a lock; try more --requests or --concurrency", unguarded)}
	}
	return nil
}
