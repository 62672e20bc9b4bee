package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
	"example.com/stock/stack"
	"example.com/stock/strategy"
)

const demoLong = `Demo starts Redis, ZooKeeper, MariaDB, several instances of the service and nginx in front of them on this
computer, sells stock with every strategy, and judges each run from its replies and from the orders in the store. A page
with pictures of all of it is written to out/demo.html.

First the classic: 100 units, 30 requests. One at a time, 70 are left, whatever the strategy. All at once, 70
are left only where updates are not lost. Then more requests than stock: who sells more than there was?

Servers are taken from PATH (on Debian: apt-get install redis-server zookeeper mariadb-server nginx-light), run
on free loopback ports in a temporary folder, and are gone afterwards, also after Ctrl-C. Where redis-server or
nginx is missing a stand-in runs; what else is missing is named, with the strategies that need it.

Exit status: 0 all as promised; 3 a strategy broke its promise, or no run without a lock showed the race;
1 anything else; 130 interrupted.`

// A demo is what the command was asked for.
type demo struct {
	instances, concurrency, requests int
	store, json, html, histories     string
	strategies                       []string
	keep, noColor                    bool

	out, err  io.Writer
	results   []*loadtest.Result
	groups    []report.Group // the same, by act
	lingering bool           // all has been shown
	stuck     error          // what could not be stopped
}

func demoCommand() *cobra.Command {
	var d demo
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "See the over-selling race and its fixes on this computer, on real servers",
		Long:    demoLong,
		Example: "  stock demo\n  stock demo --strategies none,redis-watchdog --store redis\n  stock demo --keep    # leave it running, to play with",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			d.out, d.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := d.check(); err != nil {
				return err
			}
			err := d.run(cmd.Context())
			switch interrupted := cmd.Context().Err() != nil && !d.lingering; {
			case interrupted && d.stuck != nil:
				return exitError{exitInterrupted, fmt.Errorf("interrupted, but not all is stopped: %w", d.stuck)}
			case interrupted:
				return exitError{exitInterrupted, errors.New("interrupted; all that was started is stopped")}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&d.store, "store", "both", "where the stock is: redis, mysql or both")
	flags.StringSliceVar(&d.strategies, "strategies", []string{"all"}, "strategies to show, or \"all\"")
	flags.IntVar(&d.instances, "instances", 3, "instances of the service behind nginx")
	flags.IntVar(&d.concurrency, "concurrency", 30, "requests at once")
	flags.IntVar(&d.requests, "requests", 1000, "requests for the 100 units of the last part")
	flags.BoolVar(&d.keep, "keep", false, "leave it running afterwards, print the URLs, and stop on Ctrl-C")
	flags.StringVar(&d.json, "json", "", "write all results to this file as JSON")
	flags.StringVar(&d.html, "html", demoPage, "write a page about all of it to this file; \"\": none")
	flags.StringVar(&d.histories, "histories", "", "write every request of every run to files in this folder, for stock report")
	flags.BoolVar(&d.noColor, "no-color", false, "no colours on a terminal either (as NO_COLOR does)")
	return cmd
}

func (d *demo) check() error {
	within := func(flag string, value, least, most int) error {
		if value < least || value > most {
			return fmt.Errorf("--%s: must be from %d to %d", flag, least, most)
		}
		return nil
	}
	var unknown []error
	for _, name := range d.strategies {
		if _, err := strategy.Lookup(name); err != nil && name != "all" {
			unknown = append(unknown, fmt.Errorf("--strategies: %w", err))
		}
	}
	if len(d.strategies) == 0 {
		unknown = append(unknown, errors.New("--strategies: must name one, or \"all\""))
	}
	if !slices.Contains([]string{strategy.Redis, strategy.MySQL, "both"}, d.store) {
		unknown = append(unknown, errors.New("--store: must be redis, mysql or both"))
	}
	return errors.Join(errors.Join(unknown...), d.checkFiles(),
		within("instances", d.instances, 1, 20), within("concurrency", d.concurrency, 2, 1000), within("requests", d.requests, 101, 1_000_000))
}

// demoToken lets the load generator set stock on the instances that demo starts; they listen on this computer only.
const demoToken = "demo"

// demoServers are one of each, and five more Redis for redlock.
func demoServers() []stack.Kind {
	return append([]stack.Kind{stack.Redis, stack.ZooKeeper, stack.MySQL}, slices.Repeat([]stack.Kind{stack.Redis}, 5)...)
}

// run starts everything, shows it, and stops everything.
func (d *demo) run(ctx context.Context) (err error) {
	began := time.Now()
	servers, err := stack.Start(ctx, stack.Options{
		Want: demoServers(),
		Env: []string{
			"STOCK_ADMIN_TOKEN=" + demoToken, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s",
			"STOCK_REDLOCK_QUARANTINE=-1s",     // the nodes have just started, and there is no lock yet that they could have forgotten
			"STOCK_REDLOCK_NODE_TIMEOUT=500ms", // everything shares this computer: a slow answer is no dead node
		},
		Progress: d.progress,
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

// progress tells of the servers as they come and go.
func (d *demo) progress(e stack.Event) {
	switch e.What {
	case "ready", "missing", "failed":
		took := ""
		if e.Took > 0 {
			took = fmt.Sprintf("  (%.1f s)", e.Took.Seconds())
		}
		fmt.Fprintf(d.err, "  %-10s %-8s %s%s\n", e.Server, e.What, e.Detail, took)
	}
}

func (d *demo) linger(ctx context.Context, servers *stack.Stack, url string) {
	fmt.Fprintf(d.out, `
It goes on running until Ctrl-C. To play with:
  curl -X PUT %[1]s/v1/stock/stock -H 'Authorization: Bearer %[2]s' -H 'Content-Type: application/json' -d '{"quantity":100}'
  curl -X POST %[1]s/deduct_stock_zk
  curl %[1]s/v1/stock/stock
  curl %[1]s/v1/strategies
  %[3]s load --url %[1]s --admin-token %[2]s --strategy none
Who holds a lock, and the metrics, are told to operators, by each instance on a listener of its own:
  curl %[5]s/v1/locks/zk-sequential/stock
  curl %[5]s/metrics
Logs are in %[4]s
`, url, demoToken, os.Args[0], servers.Dir, servers.Server("app-1").Admin)
	<-ctx.Done()
}

func writeResults(path string, results []*loadtest.Result) error {
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if err := errors.Join(loadtest.WriteJSON(file, results), file.Close()); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}
