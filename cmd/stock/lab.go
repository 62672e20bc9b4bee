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

func labCommand(v voice) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Make every failure of a stock lock happen, and see who survives it",
		Long:  labLong,
	}
	cmd.AddCommand(labListCommand(v), labRunCommand(v), labMatrixCommand(v), labSoakCommand(v))
	return cmd
}

func labListCommand(v voice) *cobra.Command {
	var group string
	cmd := &cobra.Command{
		Use: "list", Short: "List the scenarios", Args: cobra.NoArgs,
		Example: "  stock lab list\n  stock lab list --group B --lang zh",
		RunE: func(cmd *cobra.Command, _ []string) error {
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			scenarios, err := scenario.All()
			if err != nil {
				return err
			}
			for _, s := range scenarios {
				if group == "" || string(s.Group) == group {
					fmt.Fprintf(
						table, "%s\t%s\t%s\t%s\n", s.Group, s.Name, v.say("lab.cases", "n", len(s.Cases)),
						v.in(s.Title),
					)
				}
			}
			return table.Flush()
		},
	}
	cmd.Flags().
		StringVar(&group, "group", "", "only this group: A no or wrong lock, B SETNX, C Redlock, D ZooKeeper, E "+
			"MySQL, F waiting")
	return cmd
}

// A labRun holds the flags of "stock lab run".
type labRun struct {
	voice
	options    lab.Options
	all, quick bool
	group      string
	json, html string
	verbose    bool
	out, err   io.Writer
}

func labRunCommand(v voice) *cobra.Command {
	r := labRun{voice: v}
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
	return cmd
}

// choose returns the requested scenarios.
func (r *labRun) choose(names []string) (err error) {
	if r.options.Repeat < 1 || r.options.Repeat > 1000 {
		return failure("wrong.from-to", "flag", "repeat", "least", 1, "most", 1000)
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
		return failure("lab.no-scenario")
	}
	for _, name := range r.options.Strategies {
		if !slices.ContainsFunc(r.options.Scenarios, func(s lab.Scenario) bool {
			return slices.ContainsFunc(s.Cases, func(c lab.Case) bool { return c.Subject() == name })
		}) {
			return failure("lab.no-case", "strategy", name)
		}
	}
	return nil
}

func (r *labRun) run(ctx context.Context) error {
	columns := width(r.err)
	r.options.Server = r.showServers(r.err, false)
	r.options.Began = func(s lab.Scenario, c lab.Case) {
		if columns > 0 {
			fmt.Fprintf(r.err, "\r\x1b[K  %s: %s ...", s.Name, r.in(c.Said()))
		}
	}
	last := ""
	r.options.Done = func(s lab.Scenario, c lab.Cell) {
		if columns > 0 {
			fmt.Fprint(r.err, "\r\x1b[K")
		}
		if s.Name != last {
			last = s.Name
			lab.WriteScenario(r.out, s, string(r.voice))
		}
		lab.WriteCell(r.out, c, r.verbose, string(r.voice))
	}
	report, err := lab.Run(ctx, r.options)
	lab.WriteSummary(r.out, report, string(r.voice))
	if r.json != "" {
		err = errors.Join(err, writeJSON(r.json, indented(report)))
	}
	if r.html != "" {
		err = errors.Join(err, writeLabPage(r.html, report, string(r.voice)))
	}
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, failure("interrupted.stopped")}
	case err != nil:
		return err
	case len(report.Wrong()) > 0:
		return exitError{exitVerdict, nil}
	case len(report.Skipped()) > 0 && os.Getenv("REQUIRE_BACKENDS") == "1":
		return exitError{exitSkipped, failure("lab.skipped")}
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
	voice
	markdown, words, html, check string
}

func labMatrixCommand(v voice) *cobra.Command {
	m := labMatrix{voice: v}
	cmd := &cobra.Command{
		Use:   "matrix FILE",
		Short: "Make the matrix of failures from a run, or compare a run with it",
		Long:  labMatrixLong,
		Args:  cobra.ExactArgs(1),
		Example: "  stock lab run --all --json lab.json\n  stock lab matrix lab.json --html lab.html\n" +
			"  stock lab matrix lab.json --check docs/failure-modes.json",
		RunE: func(cmd *cobra.Command, args []string) error {
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
	return cmd
}

func (m *labMatrix) write(report lab.Report, out io.Writer) error {
	if m.html != "" {
		if err := writeLabPage(m.html, report, string(m.voice)); err != nil {
			return err
		}
		fmt.Fprintln(out, m.say("wrote", "path", m.html))
	}
	matrix, err := matrixOf(report)
	if err != nil {
		return err
	}
	if m.check != "" {
		if err := checkWords(m.check, matrix); err != nil {
			return err
		}
		fmt.Fprintln(out, m.say("lab.as-kept", "n", len(matrix.Words()), "path", m.check))
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
		fmt.Fprintln(out, m.say("wrote", "path", path))
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
			failure("lab.changed", "path", path, "what", strings.Join(wrong, "\n  ")),
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
		return report, failure("lab.version", "path", path, "version", report.Version, "want", lab.ReportVersion)
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
	voice
	options  soak.Options
	plan     bool
	json     string
	out, err io.Writer
}

func labSoakCommand(v voice) *cobra.Command {
	r := soakRun{voice: v}
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
		return failure("wrong.from-to-is", "flag", "for", "least", "1s", "most", "24h", "given", o.For)
	case o.Instances < 2 || o.Instances > 8:
		return failure("wrong.from-to-is", "flag", "instances", "least", 2, "most", 8, "given", o.Instances)
	case o.Within <= 0:
		return failure("wrong.healthy-within", "given", o.Within)
	}
	return nil
}

func (r *soakRun) run(ctx context.Context) error {
	if err := r.check(); err != nil {
		return err
	}
	fmt.Fprintln(r.out, r.say("soak.again", "command",
		fmt.Sprintf("stock lab soak --for %v --seed %d --instances %d", r.options.For, r.options.Seed,
			r.options.Instances)))
	soak.WritePlan(r.out, r.options.Plan())
	if r.plan {
		return nil
	}
	r.options.Server = r.showServers(r.err, false)
	r.options.Say = func(at time.Duration, text string) { fmt.Fprintf(r.err, "  %6.1fs  %s\n", at.Seconds(), text) }
	report, err := soak.Run(ctx, r.options)
	var missing *soak.MissingError
	switch {
	case errors.As(err, &missing):
		return exitError{exitSkipped, err}
	case err != nil && ctx.Err() != nil:
		return exitError{
			exitInterrupted,
			failure("interrupted.no-verdict-stopped"),
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
