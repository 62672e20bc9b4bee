package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/lab"
	labreport "example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
	"example.com/stock/lab/soak"
)

const labLong = `Each scenario makes one failure happen on real servers, the first time and every time, tells what
was seen of each strategy, and compares that with what the strategy's promise lets expect.

It runs redis-server, ZooKeeper, MariaDB and several instances of the service on free loopback ports in a temporary
folder, and stops them afterwards.`

const labRunLong = labLong + `

Exit status: 0 all as predicted; 3 something was not, or came to no end; 4 a scenario was skipped though
REQUIRE_BACKENDS=1; 1 anything else; 130 interrupted.`

func labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Make every failure of a stock lock happen, and see who survives it",
		Long:  labLong,
	}
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
					fmt.Fprintf(
						table, "%s\t%s\t%d %s\t%s\n", s.Group, s.Name, len(s.Cases),
						lab.Text{EN: "cases", ZH: "例"}.In(lang), s.Title.In(lang),
					)
				}
			}
			return table.Flush()
		},
	}
	cmd.Flags().
		StringVar(&group, "group", "", "only this group: A no or wrong lock, B SETNX, C Redlock, D ZooKeeper, E "+
			"MySQL, F waiting")
	languageFlag(cmd, &lang)
	return cmd
}

// A labRun holds the flags of "stock lab run".
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
		Use:   "run [NAME...]",
		Short: "Run scenarios and judge them",
		Long:  labRunLong,
		Example: "  stock lab run no-lock\n  stock lab run holder-frozen-past-lease --strategy redis-watchdog " +
			"--lang zh\n  stock lab run --all --json lab.json",
		RunE: func(cmd *cobra.Command, names []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			// go-redis prints every refused connection, and the lab kills servers on purpose.
			app.LogRedis(slog.New(slog.DiscardHandler))
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

// choose returns the requested scenarios.
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
	r.options.Server = showServers(r.err, false)
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
		err = errors.Join(err, writeJSON(r.json, indented(report)))
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

const labMatrixLong = `It reads what "stock lab run --json" wrote and asks no server.

--words keeps the words of a whole run in which everything was as predicted, and --markdown the table with its
evidence. --check compares a run, whole or a part, with words that were kept. --html is for the eye and is written
whatever the run says.

Exit status: 0 done, and nothing changed; 3 something changed or cannot be kept; 1 anything else.`

// A labMatrix holds the flags of "stock lab matrix".
type labMatrix struct {
	markdown, words, html, check, lang string
}

func labMatrixCommand() *cobra.Command {
	var m labMatrix
	cmd := &cobra.Command{
		Use:   "matrix FILE",
		Short: "Make the matrix of failures from a run, or compare a run with it",
		Long:  labMatrixLong,
		Args:  cobra.ExactArgs(1),
		Example: "  stock lab run --all --json lab.json\n  stock lab matrix lab.json --html lab.html\n" +
			"  stock lab matrix lab.json --check docs/failure-modes.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkLanguage(m.lang); err != nil {
				return err
			}
			report, err := readReport(args[0])
			if err != nil {
				return err
			}
			return m.write(report, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.html, "html", "", "write a page with matrix, evidence and timelines to this file")
	flags.StringVar(&m.markdown, "markdown", "", "write the matrix with its evidence to this file")
	flags.StringVar(&m.words, "words", "", "write the words alone to this file, for --check")
	flags.StringVar(&m.check, "check", "", "compare the run with the words in this file")
	languageFlag(cmd, &m.lang)
	return cmd
}

func (m *labMatrix) write(report lab.Report, out io.Writer) error {
	if m.html != "" {
		if err := writeLabPage(m.html, report, m.lang); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", m.html)
	}
	matrix, err := matrixOf(report)
	if err != nil {
		return err
	}
	if m.check != "" {
		if err := checkWords(m.check, matrix); err != nil {
			return err
		}
		fmt.Fprintf(out, "%d words are what %s says\n", len(matrix.Words()), m.check)
	}
	if m.markdown == "" && m.words == "" {
		return nil
	}
	if err := matrix.Whole(); err != nil {
		return exitError{exitVerdict, err}
	}
	for path, write := range map[string]func(io.Writer) error{
		m.markdown: matrix.WriteMarkdown,
		m.words:    func(w io.Writer) error { return labreport.WriteWords(w, matrix.Words()) },
	} {
		if path == "" {
			continue
		}
		if err := writeFile(path, write); err != nil {
			return err
		}
		fmt.Fprintln(out, "wrote", path)
	}
	return nil
}

// checkWords compares the texts of a run with those that are kept, and those with the catalogue.
func checkWords(path string, matrix labreport.Matrix) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("--check: %w", err)
	}
	defer file.Close()
	kept, err := labreport.ReadWords(file)
	if err != nil {
		return fmt.Errorf("--check: %s: %w", path, err)
	}
	if wrong := append(matrix.Stale(kept), matrix.Changed(kept)...); len(wrong) > 0 {
		return exitError{
			exitVerdict,
			fmt.Errorf("%s is not what the lab says:\n  %s", path, strings.Join(wrong, "\n  ")),
		}
	}
	return nil
}

func readReport(path string) (report lab.Report, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("%s: %w", path, err)
	}
	if report.Version != lab.ReportVersion {
		return report, fmt.Errorf(
			"%s: version %d of the report is not %d: run the lab again", path, report.Version,
			lab.ReportVersion,
		)
	}
	return report, nil
}

func writeLabPage(path string, report lab.Report, lang string) error {
	matrix, err := matrixOf(report)
	if err != nil {
		return err
	}
	return writeFile(path, func(w io.Writer) error { return matrix.WriteHTML(w, lang) })
}

// matrixOf compares a run with the catalogue.
func matrixOf(report lab.Report) (labreport.Matrix, error) {
	scenarios, err := scenario.All()
	return labreport.Matrix{Scenarios: scenarios, Run: report}, err
}

const labSoakLong = `Soak sells with every strategy that promises safety in the whole cluster and has a fence, on
both stores, through several instances, while instances and servers are killed, paused and restarted, and links
between them are cut, silenced and slowed: one fault at a time, or two, with quiet between. The seed decides what
is done to whom, for how long and in which order.

It ends with the faults by kind, the requests by outcome, and whether every unit was sold once: nothing oversold,
nothing lost, no order without a deduction, no deduction without an order, and everything healthy soon after the
last fault. An interrupt ends the sale early; the verdict comes all the same.

Exit status: 0 it holds; 3 it does not; 4 a server is not installed; 1 anything else; 130 interrupted, and it
holds so far.`

// A soakRun holds the flags of "stock lab soak".
type soakRun struct {
	options  soak.Options
	plan     bool
	json     string
	out, err io.Writer
}

func labSoakCommand() *cobra.Command {
	var r soakRun
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Sell while everything fails at random, and judge whether a unit was lost",
		Long:  labSoakLong,
		Args:  cobra.NoArgs,
		Example: "  stock lab soak --for 10m\n  stock lab soak --for 2m --seed 7 --json soak.json\n" +
			"  stock lab soak --for 2m --seed 7 --plan",
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
	flags.Uint64Var(
		&r.options.Seed, "seed", 0, "what decides about the faults (default: one at random, which is printed)",
	)
	flags.IntVar(&r.options.Instances, "instances", soak.Instances, "instances that sell")
	flags.DurationVar(
		&r.options.Within, "healthy-within", soak.Within,
		"how soon after the last fault everything must be healthy",
	)
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
	fmt.Fprintf(
		r.out, "The same faults again: stock lab soak --for %v --seed %d --instances %d\n", r.options.For,
		r.options.Seed, r.options.Instances,
	)
	soak.WritePlan(r.out, r.options.Plan())
	if r.plan {
		return nil
	}
	r.options.Server = showServers(r.err, false)
	r.options.Say = func(at time.Duration, text string) { fmt.Fprintf(r.err, "  %6.1fs  %s\n", at.Seconds(), text) }
	report, err := soak.Run(ctx, r.options)
	var missing *soak.MissingError
	switch {
	case errors.As(err, &missing):
		return exitError{exitSkipped, err}
	case err != nil && ctx.Err() != nil:
		return exitError{
			exitInterrupted,
			errors.New("interrupted before there was a verdict; all that was started is stopped"),
		}
	case err != nil:
		return err
	}
	soak.Write(r.out, &report)
	if r.json != "" {
		if err := writeJSON(r.json, indented(&report)); err != nil {
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
