package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/lab"
	labreport "example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
	"example.com/stock/loadtest"
)

func labCommand(v voice) *cobra.Command {
	return parent(
		"lab",
		labListCommand(v), labRunCommand(v), labMatrixCommand(v), labGradeCommand(v), labSoakCommand(v),
		labFailoverCommand(v),
	)
}

func labListCommand(v voice) *cobra.Command {
	var group string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var t table
			scenarios, err := scenario.All()
			if err != nil {
				return err
			}
			for _, s := range scenarios {
				if group == "" || string(s.Group) == group {
					t.line(string(s.Group), s.Name, v.say("lab.cases", "n", len(s.Cases)), v.in(s.Title))
				}
			}
			if len(t) == 0 {
				return wrong("group", failure("lab.no-group", "given", strconv.Quote(group)))
			}
			return t.print(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&group, "group", "", "")
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
		Use: "run [NAME...]",
		RunE: func(cmd *cobra.Command, names []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			// go-redis prints every refused connection, and the lab kills servers on purpose.
			app.LogRedis(slog.New(slog.DiscardHandler))
			if err := errors.Join(r.choose(names), checkOutput(cmd.Flags())); err != nil {
				return err
			}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&r.all, "all", false, "")
	flags.BoolVar(&r.quick, "quick", false, "")
	flags.StringVar(&r.group, "group", "", "")
	flags.StringSliceVar(&r.options.Strategies, "strategy", nil, "")
	flags.StringVar(&r.json, "json", "", "")
	flags.StringVar(&r.html, "html", "", "")
	flags.BoolVarP(&r.verbose, "verbose", "v", false, "")
	return cmd
}

// choose returns the requested scenarios.
func (r *labRun) choose(names []string) (err error) {
	all, err := scenario.All()
	if err != nil {
		return err
	}
	if len(names) > 0 {
		if r.options.Scenarios, err = scenario.Find(names...); err != nil {
			return err
		}
	}
	for _, s := range all {
		switch {
		case slices.Contains(names, s.Name):
		case r.all || r.group != "" && string(s.Group) == r.group:
			r.options.Scenarios = append(r.options.Scenarios, s)
		case r.quick && !s.Slow:
			s.Cases = s.Cases[:1]
			r.options.Scenarios = append(r.options.Scenarios, s)
		}
	}
	if len(r.options.Scenarios) == 0 {
		return failure("lab.no-scenario")
	}
	return r.checkStrategies(all)
}

// checkStrategies refuses a strategy of --strategy that no scenario knows, and one that the chosen scenarios lack.
func (r *labRun) checkStrategies(all []lab.Scenario) error {
	known, chosen := subjects(all), subjects(r.options.Scenarios)
	for _, name := range r.options.Strategies {
		switch {
		case !slices.Contains(known, name):
			return wrong("strategy", loadtest.UnknownStrategy(name, known))
		case !slices.Contains(chosen, name):
			return failure("lab.no-case", "strategy", name)
		}
	}
	return nil
}

// subjects returns the strategies, and what stands in their place, of all cases, sorted.
func subjects(scenarios []lab.Scenario) (names []string) {
	for _, s := range scenarios {
		for _, c := range s.Cases {
			names = append(names, c.Subject())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (r *labRun) run(ctx context.Context) error {
	columns := width(r.err)
	r.options.Server = r.showServers(r.err, false)
	r.options.Began = func(s lab.Scenario, c lab.Case) {
		if columns > 0 {
			fmt.Fprintf(r.err, clearLine+"  %s: %s ...", s.Name, r.in(c.Said()))
		}
	}
	last := ""
	r.options.Done = func(s lab.Scenario, c lab.Cell) {
		if columns > 0 {
			fmt.Fprint(r.err, clearLine)
		}
		if s.Name != last {
			last = s.Name
			lab.WriteScenario(r.out, s, string(r.voice))
		}
		lab.WriteCell(r.out, c, r.verbose, string(r.voice))
	}
	report, err := lab.Run(ctx, r.options)
	lab.WriteSummary(r.out, report, string(r.voice))
	err = errors.Join(err, writeJSON(r.json, report))
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

// A labMatrix holds the flags of "stock lab matrix".
type labMatrix struct {
	voice
	markdown, words, html, check string
}

func labMatrixCommand(v voice) *cobra.Command {
	m := labMatrix{voice: v}
	cmd := &cobra.Command{
		Use:  "matrix FILE",
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := readReport(args[0])
			if err != nil {
				return err
			}
			return m.write(report, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.html, "html", "", "")
	flags.StringVar(&m.markdown, "markdown", "", "")
	flags.StringVar(&m.words, "words", "", "")
	flags.StringVar(&m.check, "check", "", "")
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
		return wrong("check", err)
	}
	defer file.Close()
	kept, err := labreport.ReadWords(file)
	if err != nil {
		return wrong("check", fmt.Errorf("%s: %w", path, err))
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
