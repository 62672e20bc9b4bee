package main

import (
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

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/service/strategy"
)

// A demo holds the flags of the command, and the results.
type demo struct {
	voice
	instances, concurrency, requests int
	store, json, html, histories     string
	strategies                       []string
	keep, noColor, withCheckout      bool

	out, err  io.Writer
	results   []*loadtest.Result
	groups    []report.Group   // the same, by act
	books     *checkout.Result // of the checkout; nil: there was none
	lingering bool             // everything was shown: Ctrl-C is the normal end
	stuck     error            // what could not be stopped
}

func demoCommand(v voice) *cobra.Command {
	d := demo{voice: v}
	cmd := &cobra.Command{
		Use:  "demo",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			d.out, d.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := d.check(cmd.Flags()); err != nil {
				return err
			}
			err := d.run(cmd.Context())
			switch interrupted := cmd.Context().Err() != nil && !d.lingering; {
			case interrupted && d.stuck != nil:
				return exitError{exitInterrupted, failure("interrupted.stuck", "why", d.stuck)}
			case interrupted:
				return exitError{exitInterrupted, failure("interrupted.stopped")}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.store, "store", "both", "")
	flags.StringSliceVar(&d.strategies, "strategies", []string{"all"}, "")
	flags.IntVar(&d.instances, "instances", 3, "")
	flags.IntVar(&d.concurrency, "concurrency", 30, "")
	flags.IntVar(&d.requests, "requests", 1000, "")
	flags.BoolVar(&d.withCheckout, "checkout", true, "")
	flags.BoolVar(&d.keep, "keep", false, "")
	flags.StringVar(&d.json, "json", "", "")
	flags.StringVar(&d.html, "html", demoPage, "")
	flags.StringVar(&d.histories, "histories", "", "")
	noColorFlag(cmd, &d.noColor)
	return cmd
}

func (d *demo) check(flags *pflag.FlagSet) error {
	var unknown []error
	for _, name := range d.strategies {
		if _, err := strategy.Lookup(name); err != nil && name != "all" {
			unknown = append(unknown, wrong("strategies", err))
		}
	}
	if len(d.strategies) == 0 {
		unknown = append(unknown, failure("wrong.no-strategies"))
	}
	if !slices.Contains([]string{strategy.Redis, strategy.MySQL, "both"}, d.store) {
		unknown = append(unknown, failure("wrong.demo-store"))
	}
	return errors.Join(
		errors.Join(unknown...), d.checkFiles(flags), within("instances", d.instances, 1, 20),
		within("concurrency", d.concurrency, 2, 1000), within("requests", d.requests, 101, 1_000_000),
	)
}

// demoToken lets the load generator set stock on the instances that demo starts, which listen on this computer only.
const demoToken = "demo"

// demoServers returns one server of each kind, and five more Redis for redlock.
func demoServers() []server.Kind {
	return append(
		[]server.Kind{server.Redis, server.ZooKeeper, server.MySQL},
		slices.Repeat([]server.Kind{server.Redis}, 5)...)
}

// run starts everything, shows it, and stops everything.
func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	servers, err := stack.Start(ctx, stack.Options{
		Options: server.Options{Want: demoServers(), Progress: d.showServers(d.err, true)},
		Env: []string{
			"STOCK_ADMIN_TOKEN=" + demoToken,
			"STOCK_LOG_LEVEL=warn",
			"STOCK_DRAIN=0s",
			// The nodes have just started, so there is no lock yet that they could have forgotten.
			"STOCK_REDLOCK_QUARANTINE=-1s",
			"STOCK_REDLOCK_NODE_TIMEOUT=500ms", // everything shares this computer: a slow answer is no dead node
		},
	})
	if err != nil {
		return err
	}
	defer func() {
		d.stuck = servers.Stop()
		err = errors.Join(err, d.stuck)
	}()
	if _, err := servers.Serve(ctx, d.instances); err != nil {
		return err
	}
	front, err := servers.Front(ctx)
	if err != nil {
		return err
	}
	if err := d.show(ctx, front.URL); err != nil {
		return err
	}
	if d.withCheckout {
		if err := d.checkout(ctx, servers); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.out, "\n%s\n", d.summary(time.Since(began)))
	if err := d.writeFiles(); err != nil {
		return err
	}
	if d.keep {
		d.lingering = true
		d.linger(ctx, servers, front.URL)
	}
	return d.status()
}

// playCommands are the commands that --keep shows.
const playCommands = `
%[7]s
  curl -X PUT %[1]s/v1/stock/stock -H 'Authorization: Bearer %[2]s' -H '%[6]s' -d '{"quantity":100}'
  curl -X POST %[1]s/deduct_stock_zk
  curl %[1]s/v1/stock/stock
  curl %[1]s/v1/strategies
  %[3]s load --url %[1]s --admin-token %[2]s --strategy none
%[8]s
  curl %[5]s/v1/locks/zk-sequential/stock
  curl %[5]s/metrics
%[9]s %[4]s
`

func (d *demo) linger(ctx context.Context, servers *stack.Stack, url string) {
	fmt.Fprintf(d.out, playCommands, url, demoToken, os.Args[0], servers.Dir, servers.Server("app-1").Admin,
		"Content-Type: application/json", d.say("demo.play"), d.say("demo.operators"), d.say("demo.logs"))
	<-ctx.Done()
}

// The units and requests of the first two acts.
const (
	demoStock    = 100
	demoRequests = 30
)

// An act is one part of the demonstration: the same run with every strategy.
type act struct {
	number                int
	title                 string
	concurrency, requests int
	folded                bool // only runs that surprise, or that show the race, have a row
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
	left := demoStock - demoRequests
	for _, a := range []act{
		{
			number: 1, concurrency: demoRequests, requests: demoRequests,
			title: d.say("demo.at-once", "stock", demoStock, "requests", demoRequests, "left", left),
		},
		{
			number: 2, concurrency: d.concurrency, requests: d.requests, folded: true,
			title: d.say("demo.more", "requests", d.requests, "stock", demoStock, "at_once", d.concurrency),
		},
		{
			number: 3, concurrency: 1, requests: demoRequests, folded: true,
			title: d.say("demo.one", "requests", demoRequests, "left", left),
		},
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

// casts returns the runs of each act. It names on stderr those that cannot run, with the reason.
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
				absent.add(s.Reason, d.say("demo.run", "strategy", s.Name, "store", store))
			case down:
				absent.add(reason, d.say("demo.run", "strategy", s.Name, "store", store))
			default:
				list = append(list, cast{s, store})
			}
		}
	}
	absent.print(d.voice, d.err)
	if len(list) == 0 {
		return nil, failure("demo.none", "strategies", d.strategies, "store", d.store)
	}
	return list, nil
}

// leftOut lists the runs that cannot take place, by reason, in the order of discovery.
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

func (l *leftOut) print(v voice, w io.Writer) {
	for _, reason := range l.reasons {
		fmt.Fprintln(w, v.say("demo.not-shown", "runs", strings.Join(l.runs[reason], ", "), "why", reason))
	}
}

func (d *demo) play(ctx context.Context, client *loadtest.Client, a act, casts []cast) error {
	fmt.Fprintf(d.out, "\n%s\n\n", a.title)
	var results []*loadtest.Result
	for _, c := range casts {
		result, err := d.sell(ctx, client, a, c)
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
	if !a.folded {
		return report.WriteTable(d.out, results, d.style(d.out, d.noColor))
	}
	return d.fold(results)
}

// fold writes the rows of those runs that show the race, or that were not as promised, and counts the others.
func (d *demo) fold(results []*loadtest.Result) error {
	rows := slices.DeleteFunc(slices.Clone(results), func(r *loadtest.Result) bool {
		return r.Verdict.Kept && !r.Verdict.RaceSeen
	})
	if len(rows) > 0 {
		if err := report.WriteTable(d.out, rows, d.style(d.out, d.noColor)); err != nil {
			return err
		}
		fmt.Fprintln(d.out)
	}
	if kept := len(results) - len(rows); kept > 0 {
		fmt.Fprintln(d.out, d.say("demo.kept", "n", kept))
	}
	return nil
}

// ticker shows the progress of a run on a terminal. In a file, its 39 lines would bury the tables.
func (d *demo) ticker(c cast) func(loadtest.Progress) {
	columns := width(d.err)
	if columns == 0 {
		return nil
	}
	return report.ShowProgress(d.err, d.say("demo.run", "strategy", c.strategy.Name, "store", c.store), string(d.voice),
		columns)
}

// summary describes the results.
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
	return d.say("demo.summary", "runs", len(d.results), "seconds", fmt.Sprintf("%.0f", took.Seconds()), "kept", kept,
		"raced", racy, "oversold", oversold, "lost", lost)
}

// status returns the exit status: whether a promise was broken, or no run without a lock showed the race.
func (d *demo) status() error {
	unguarded, raced := 0, 0
	for _, r := range d.results {
		v := &r.Verdict
		if !v.Kept {
			return exitError{exitVerdict, failure("demo.broken", "strategy", r.Plan.Strategy, "store", r.Plan.Store,
				"sentence", v.Sentence)}
		}
		if r.Strategy.Promise.Scope == loadtest.Nowhere && r.Plan.Concurrency > 1 {
			unguarded++
			if v.RaceSeen {
				raced++
			}
		}
	}
	if d.books != nil && d.books.Verdict.Finding == loadtest.Broken {
		return exitError{exitVerdict, failure("demo.books", "sentence", d.books.Verdict.Sentence)}
	}
	if unguarded > 0 && raced == 0 {
		return exitError{exitVerdict, failure("demo.no-race", "runs", unguarded)}
	}
	return nil
}

// demoPage is the default path of the page. `make clean` removes the folder.
const demoPage = "out/demo.html"

// checkFiles reports the files that cannot be written, before anything starts.
func (d *demo) checkFiles(flags *pflag.FlagSet) error {
	if d.html == demoPage {
		if err := os.MkdirAll(filepath.Dir(demoPage), 0o755); err != nil {
			return failure("demo.no-page", "why", err)
		}
	}
	if d.histories != "" {
		if err := os.MkdirAll(d.histories, 0o755); err != nil {
			return errors.Join(checkOutput(flags), wrong("histories", err))
		}
	}
	return checkOutput(flags)
}

// sell makes one run. It keeps the history of the run in a file if that is wanted.
func (d *demo) sell(ctx context.Context, client *loadtest.Client, a act, c cast) (*loadtest.Result, error) {
	plan := loadtest.Plan{
		Strategy:    c.strategy.Name,
		Store:       c.store,
		Stock:       demoStock,
		Requests:    a.requests,
		Concurrency: a.concurrency,
		Recheck:     new(time.Duration), // a second for each of a hundred runs; nothing here takes an order back
	}
	if d.histories == "" {
		return loadtest.Run(ctx, client, plan, d.ticker(c))
	}
	name := fmt.Sprintf("%d-%s-%s.jsonl", a.number, c.strategy.Name, c.store)
	file, err := os.Create(filepath.Join(d.histories, name))
	if err != nil {
		return nil, wrong("histories", err)
	}
	plan.History = file
	result, err := loadtest.Run(ctx, client, plan, d.ticker(c))
	return result, errors.Join(err, file.Close())
}

// writeFiles writes the requested files, and says where the page is.
func (d *demo) writeFiles() error {
	if err := writeJSON(d.json, loadtest.NewReport(d.results)); err != nil {
		return err
	}
	if d.html == "" {
		return nil
	}
	page := report.Page{
		Title: d.say("demo.title"), Lang: string(d.voice), Commit: commit(), Groups: d.groups,
	}
	if err := writeFile(d.html, func(w io.Writer) error { return report.WriteHTML(w, page) }); err != nil {
		return wrong("html", err)
	}
	path, err := filepath.Abs(d.html)
	if err != nil {
		path = d.html
	}
	fmt.Fprintln(d.out, d.say("demo.page", "path", "file://"+filepath.ToSlash(path)))
	return nil
}
