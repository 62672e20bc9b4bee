package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/lab/engine"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
	"example.com/stock/service/strategy"
)

// An engineRun holds the flags of "stock engine".
type engineRun struct {
	outputs
	options    engine.Options
	strategies []string
	at         []string
	out, err   io.Writer
}

func engineCommand(v voice) *cobra.Command {
	r := engineRun{outputs: outputs{voice: v}}
	cmd := &cobra.Command{
		Use:  "engine [--mysql DSN ...] [--redis URL] [--zookeeper HOST:PORT[,...]]",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := r.check(cmd.Flags()); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	flags, o := cmd.Flags(), &r.options
	flags.SortFlags = false
	flags.StringArrayVar(&o.MySQL, "mysql", nil, "")
	flags.StringVar(&o.Redis, "redis", "", "")
	flags.StringSliceVar(&o.ZooKeeper, "zookeeper", nil, "")
	flags.StringSliceVarP(&r.strategies, "strategy", "s", []string{"all"}, "")
	flags.IntVarP(&o.Plan.Requests, "requests", "n", 1200, "")
	flags.Int64Var(&o.Plan.Stock, "stock", 800, "")
	flags.IntVarP(&o.Plan.Concurrency, "concurrency", "c", 24, "")
	flags.IntVar(&o.Visits, "visits", 300, "")
	flags.StringArrayVar(&r.at, "at", nil, "")
	r.addFiles(flags)
	noColorFlag(cmd, &r.noColor)
	return cmd
}

// check reads the settings of the instances from the environment, and reports what is wrong before anything starts.
func (r *engineRun) check(flags *pflag.FlagSet) error {
	o := &r.options
	o.Redis = cmp.Or(o.Redis, os.Getenv("STOCK_REDIS_URL")) // its password would be in the list of processes
	if len(o.MySQL) == 0 && o.Redis == "" {
		return failure("engine.no-server")
	}
	o.Lang, o.Strategies = string(r.voice), r.strategies
	if slices.Equal(r.strategies, []string{"all"}) {
		o.Strategies = nil
		for _, s := range strategy.All() {
			o.Strategies = append(o.Strategies, s.Name)
		}
	}
	absent := r.absent()
	for _, name := range o.Strategies {
		if _, err := strategy.Lookup(name); err != nil {
			return wrong("strategy", err)
		}
	}
	o.Strategies = slices.DeleteFunc(o.Strategies, func(name string) bool { return slices.Contains(absent, name) })
	err := errors.Join(
		atLeast("requests", o.Plan.Requests, 1), atLeast("stock", o.Plan.Stock, 1),
		atLeast("concurrency", o.Plan.Concurrency, 1), atLeast("visits", o.Visits, 1),
	)
	if err != nil {
		return err
	}
	if o.At, err = parseCommands(r.at); err != nil {
		return wrong("at", err)
	}
	if len(o.At) > 0 && len(o.MySQL) == 0 {
		return wrong("at", failure("engine.at-needs-mysql"))
	}
	o.Plan.Recheck = new(time.Duration) // a second for each run; nothing here takes an order back
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	app.AddFlags(settings)
	if _, err := app.Load(settings); err != nil {
		return err
	}
	o.Env = serverEnv(os.Environ())
	return checkOutput(flags)
}

// serverEnv returns the settings about servers and locks from an environment: passwords, pools, time limits.
func serverEnv(environ []string) (list []string) {
	for _, pair := range environ {
		for _, about := range []string{"MYSQL_", "REDIS_", "ZOOKEEPER_", "SERVER_TLS_", "LOCK_"} {
			if strings.HasPrefix(pair, "STOCK_"+about) {
				list = append(list, pair)
			}
		}
		if path, is := strings.CutPrefix(pair, "STOCK_CONFIG="); is && path != "" {
			if whole, err := filepath.Abs(path); err == nil { // an instance runs in another folder
				list = append(list, "STOCK_CONFIG="+whole)
			}
		}
	}
	return list
}

func (r *engineRun) run(ctx context.Context) error {
	app.LogRedis(slog.New(slog.DiscardHandler)) // what the client says of Sentinels is not for a person
	r.options.Log = commandLog(r.err)
	r.options.Say = func(text words.Text) { fmt.Fprintln(r.err, r.in(text)) }
	r.options.Server = r.showServers(r.err, false)
	columns := width(r.err)
	if columns > 0 { // in a file they would bury the rest
		r.options.Run = func(strategy, store string) func(loadtest.Progress) {
			run := r.say("demo.run", "strategy", strategy, "store", store)
			return report.ShowProgress(r.err, run, string(r.voice), columns)
		}
		r.options.Visit = func() func(checkout.Progress) {
			return report.ShowCheckoutProgress(r.err, string(r.voice), columns)
		}
	}
	tested, err := engine.Run(ctx, r.options)
	if len(tested.Parts) > 0 {
		err = errors.Join(err, r.show(tested))
	}
	runs := tested.Failed()
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, failure("engine.interrupted", "why", err)}
	case err != nil:
		return err
	case tested.CheckoutFailed():
		return exitError{1, failure("engine.broken-checkout", "runs", len(runs))}
	case len(runs) > 0:
		return exitError{1, failure("engine.broken", "runs", len(runs))}
	case tested.Undecided() > 0:
		return exitError{exitUndecided, failure("engine.undecided", "n", tested.Undecided())}
	}
	return nil
}

// show writes the report everywhere.
func (r *engineRun) show(tested *engine.Report) error {
	switch done, err := writeDocument(r.json, tested, r.out); {
	case done:
		return errors.Join(err, r.page(tested))
	case err != nil:
		return err
	case r.json != "":
		fmt.Fprintln(r.err, r.say("wrote", "path", r.json))
	}
	style := r.style(r.out, r.noColor)
	for _, line := range r.servers(tested) {
		fmt.Fprintln(r.out, line)
	}
	for i := range tested.Parts {
		p := &tested.Parts[i]
		fmt.Fprintf(r.out, "\n%s\n\n", r.title(p))
		for _, line := range r.instances(p) {
			fmt.Fprintln(r.out, "  "+line)
		}
		if len(p.Runs) > 0 {
			fmt.Fprintln(r.out)
			if err := report.WriteTable(r.out, p.Runs, style); err != nil {
				return err
			}
		}
		for _, line := range r.refused(p) {
			fmt.Fprintln(r.out, "  "+line)
		}
	}
	for _, line := range r.checkout(tested) {
		fmt.Fprintln(r.out, line)
	}
	fmt.Fprintf(r.out, "\n%s\n", r.summary(tested))
	return r.page(tested)
}

// page writes the page, whose notes are the lines of the text.
func (r *engineRun) page(tested *engine.Report) error {
	p := report.Page{
		Title: r.say("engine.title"), Lang: string(r.voice), Commit: commit(),
		Notes: append(r.servers(tested), r.summary(tested)),
	}
	for i := range tested.Parts {
		part := &tested.Parts[i]
		p.Groups = append(p.Groups, report.Group{Title: r.title(part), Runs: part.Runs})
		p.Notes = append(p.Notes, r.title(part))
		p.Notes = slices.Concat(p.Notes, r.instances(part), r.refused(part))
	}
	p.Notes = append(p.Notes, r.checkout(tested)...)
	return r.writeReport(p, r.err)
}

// servers says what the servers are.
func (r *engineRun) servers(tested *engine.Report) (lines []string) {
	for _, name := range []string{strategy.MySQL, strategy.Redis, strategy.ZooKeeper} {
		if is := tested.Servers[name]; is != "" {
			lines = append(lines, fmt.Sprintf("%s: %s", name, is))
		}
	}
	return lines
}

func (r *engineRun) title(p *engine.Part) string {
	if p.SeveralWriters {
		return r.say("engine.declared")
	}
	return r.say("engine.as-it-is")
}

// instances says who sells through which address, and who refuses to.
func (r *engineRun) instances(p *engine.Part) (lines []string) {
	for _, i := range p.Instances {
		line := i.Name
		if i.MySQL > 0 {
			line = r.say("engine.through", "name", i.Name, "n", i.MySQL)
		}
		for store, why := range i.Refuses {
			line += r.say("engine.refuses-store", "store", store, "why", why)
		}
		lines = append(lines, line)
	}
	return lines
}

// refused says what the service refuses, by reason.
func (r *engineRun) refused(p *engine.Part) (lines []string) {
	var list leftOut
	for _, x := range p.Refused {
		list.add(x.Why, r.say("demo.run", "strategy", x.What, "store", x.Store))
	}
	for _, why := range list.reasons {
		lines = append(lines, r.say("engine.refused", "what", strings.Join(list.runs[why], ", "), "why", why))
	}
	if absent := r.absent(); len(absent) > 0 {
		lines = append(lines, r.say("engine.absent", "what", strings.Join(absent, ", ")))
	}
	return lines
}

// absent returns the strategies that need a server that was not given. Redlock needs five, which no flag names.
func (r *engineRun) absent() (names []string) {
	given := map[string]bool{
		strategy.MySQL: len(r.options.MySQL) > 0, strategy.Redis: r.options.Redis != "",
		strategy.ZooKeeper: len(r.options.ZooKeeper) > 0,
	}
	for _, s := range strategy.All() {
		if slices.ContainsFunc(s.Needs, func(server string) bool { return !given[server] }) {
			names = append(names, s.Name)
		}
	}
	return names
}

// checkout says how the checkout ended, with the first examples of what is wrong.
func (r *engineRun) checkout(tested *engine.Report) (lines []string) {
	c := tested.Checkout
	if c == nil {
		return nil
	}
	lines = []string{r.say("engine.checkout", "requests", c.Figures.Requests, "sentence", c.Verdict.Sentence)}
	for _, text := range report.CheckoutCommands(c) {
		lines = append(lines, "- "+r.in(text))
	}
	for _, check := range c.Verdict.Checks {
		for _, text := range check.Examples {
			lines = append(lines, "- "+r.in(text))
		}
	}
	return lines
}

// summary says in one sentence what holds.
func (r *engineRun) summary(tested *engine.Report) string {
	made, refused, broken := 0, 0, len(tested.Failed())
	for _, p := range tested.Parts {
		if !p.SeveralWriters {
			made += len(p.Runs)
			refused += len(p.Refused)
		}
	}
	if tested.Checkout != nil {
		made++
	}
	if tested.CheckoutFailed() {
		broken++
	}
	took := time.Duration(tested.TookMS * float64(time.Millisecond)).Round(time.Second)
	return r.say("engine.summary", "n", made, "broken", broken, "undecided", tested.Undecided(),
		"refused", refused, "took", took)
}
