package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"example.com/stock/lab"
	"example.com/stock/lab/scenario"
	"example.com/stock/stack"
)

const labLong = `Each scenario makes one failure happen on real servers, the first time and every time, tells what was seen of each
strategy, and compares that with what the strategy's promise lets expect.

It runs redis-server, ZooKeeper, MariaDB and several instances of the service on free loopback ports in a temporary
folder, and stops them afterwards.`

const labRunLong = labLong + `

Exit status: 0 all as predicted; 3 something was not, or came to no end; 4 a scenario was skipped though
REQUIRE_BACKENDS=1; 1 anything else; 130 interrupted.`

// exitSkipped is the exit status when nothing may be skipped and something was.
const exitSkipped = 4

func labCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "lab", Short: "Make every failure of a stock lock happen, and see who survives it", Long: labLong}
	cmd.AddCommand(labListCommand(), labRunCommand(), labMatrixCommand(), labSoakCommand())
	return cmd
}

func labListCommand() *cobra.Command {
	var group, lang string
	cmd := &cobra.Command{
		Use: "list", Short: "List the scenarios", Args: cobra.NoArgs,
		Example: "  stock lab list\n  stock lab list --group B --lang zh",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLanguage(lang); err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			scenarios, err := scenario.All()
			if err != nil {
				return err
			}
			for _, s := range scenarios {
				if group == "" || string(s.Group) == group {
					fmt.Fprintf(table, "%s\t%s\t%d %s\t%s\n", s.Group, s.Name, len(s.Cases), lab.Text{EN: "cases", ZH: "例"}.In(lang), s.Title.In(lang))
				}
			}
			return table.Flush()
		},
	}
	cmd.Flags().StringVar(&group, "group", "", "only this group: A no or wrong lock, B SETNX, C Redlock, D ZooKeeper, E MySQL, F waiting")
	languageFlag(cmd, &lang)
	return cmd
}

// A labRun is what "stock lab run" was asked for.
type labRun struct {
	options    lab.Options
	all, quick bool
	group      string
	json, html string
	lang       string
	verbose    bool
	out, err   io.Writer
}

func labRunCommand() *cobra.Command {
	var r labRun
	cmd := &cobra.Command{
		Use: "run [NAME...]", Short: "Run scenarios and judge them", Long: labRunLong,
		Example: "  stock lab run no-lock\n  stock lab run holder-frozen-past-lease --strategy redis-watchdog --lang zh\n  stock lab run --all --json lab.json",
		RunE: func(cmd *cobra.Command, names []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			logging.Disable() // go-redis prints every connection that is refused, and here servers are killed on purpose
			if err := r.choose(names); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&r.all, "all", false, "all scenarios")
	flags.BoolVar(&r.quick, "quick", false, "the quick scenarios")
	flags.StringVar(&r.group, "group", "", "all scenarios of a group")
	flags.StringSliceVar(&r.options.Strategies, "strategy", nil, "only cases of these strategies")
	flags.IntVar(&r.options.Repeat, "repeat", 1, "how often")
	flags.StringVar(&r.json, "json", "", "write all cells, with evidence and timeline, to this file")
	flags.StringVar(&r.html, "html", "", "write a page with the evidence and a timeline of every case to this file")
	flags.BoolVarP(&r.verbose, "verbose", "v", false, "show the timelines, too")
	languageFlag(cmd, &r.lang)
	return cmd
}

// choose finds the scenarios that were asked for.
func (r *labRun) choose(names []string) (err error) {
	if err := checkLanguage(r.lang); err != nil {
		return err
	}
	if r.options.Repeat < 1 || r.options.Repeat > 1000 {
		return errors.New("--repeat: must be from 1 to 1000")
	}
	if r.options.Scenarios, err = scenario.Find(names...); err != nil {
		return err
	}
	all, err := scenario.All()
	if err != nil {
		return err
	}
	for _, s := range all {
		named := slices.Contains(names, s.Name)
		if !named && (r.all || r.quick && s.Quick || r.group != "" && string(s.Group) == r.group) {
			r.options.Scenarios = append(r.options.Scenarios, s)
		}
	}
	if len(r.options.Scenarios) == 0 {
		return errors.New("name a scenario, or use --all, --quick or --group; stock lab list shows what there is")
	}
	for _, name := range r.options.Strategies {
		if !slices.ContainsFunc(r.options.Scenarios, func(s lab.Scenario) bool {
			return slices.ContainsFunc(s.Cases, func(c lab.Case) bool { return c.Subject() == name })
		}) {
			return fmt.Errorf("--strategy: %s is no case of these scenarios", name)
		}
	}
	return nil
}

func (r *labRun) run(ctx context.Context) error {
	columns := width(r.err)
	r.options.Server = func(e stack.Event) {
		if e.What == "missing" || e.What == "failed" {
			fmt.Fprintf(r.err, "  %-10s %-8s %s\n", e.Server, e.What, e.Detail)
		}
	}
	r.options.Began = func(s lab.Scenario, c lab.Case) {
		if columns > 0 {
			fmt.Fprintf(r.err, "\r\x1b[K  %s: %s ...", s.Name, c.Said().In(r.lang))
		}
	}
	last := ""
	r.options.Done = func(s lab.Scenario, c lab.Cell) {
		if columns > 0 {
			fmt.Fprint(r.err, "\r\x1b[K")
		}
		if s.Name != last {
			last = s.Name
			lab.WriteScenario(r.out, s, r.lang)
		}
		lab.WriteCell(r.out, c, r.verbose, r.lang)
	}
	report, err := lab.Run(ctx, r.options)
	lab.WriteSummary(r.out, report, r.lang)
	if r.json != "" {
		err = errors.Join(err, writeJSON(r.json, report))
	}
	if r.html != "" {
		err = errors.Join(err, writeLabPage(r.html, report, r.lang))
	}
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, errors.New("interrupted; all that was started is stopped")}
	case err != nil:
		return err
	case len(report.Wrong()) > 0:
		return exitError{exitVerdict, nil}
	case len(report.Skipped()) > 0 && os.Getenv("REQUIRE_BACKENDS") == "1":
		return exitError{exitSkipped, errors.New("REQUIRE_BACKENDS=1, but scenarios were skipped")}
	}
	return nil
}
