package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/internal/words"
	labreport "example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// reportAsk holds the flags of report.
type reportAsk struct {
	reportFlags
	json, slides             string
	compare, schema, noColor bool
}

func reportCommand(v voice) *cobra.Command {
	ask := reportAsk{reportFlags: reportFlags{voice: v}}
	cmd := &cobra.Command{
		Use: "report HISTORY...",
		RunE: func(cmd *cobra.Command, args []string) error {
			err := ask.run(args, cmd.OutOrStdout(), cmd.ErrOrStderr())
			if plan := new(loadtest.PlanError); errors.As(err, &plan) {
				return failure("wrong.flag", "flag", plan.Field, "reason", plan.Reason)
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&ask.compare, "compare", false, "")
	ask.add(flags)
	flags.StringVar(&ask.json, "json", "", "")
	flags.StringVar(&ask.slides, "slides", "", "")
	flags.BoolVar(&ask.schema, "schema", false, "")
	noColorFlag(cmd, &ask.noColor)
	return cmd
}

func (a *reportAsk) run(args []string, stdout, stderr io.Writer) error {
	if a.schema {
		_, err := stdout.Write(report.Schema())
		return err
	}
	if err := a.check(); err != nil {
		return err
	}
	if a.slides != "" {
		if err := a.course(stderr); err != nil || len(args) == 0 {
			return err
		}
	}
	if a.compare {
		return a.sides(args, stdout, stderr)
	}
	if len(args) == 0 {
		return failure("report.no-history")
	}
	if len(args) == 1 {
		if result, err := readCheckout(args[0]); result != nil {
			return errors.Join(err, a.reportFlags.showCheckout(result, a.json, a.noColor, stdout, stderr))
		}
	}
	page := report.Page{Lang: string(a.voice), Commit: commit(), Groups: []report.Group{{}}}
	for _, path := range args {
		result, note, err := a.readRun(path)
		if err != nil {
			return err
		}
		if note != "" {
			page.Notes = append(page.Notes, note)
		}
		page.Groups[0].Runs = append(page.Groups[0].Runs, result)
	}
	return a.show(page, stdout, stderr)
}

// course writes the slides of the cards, for a teacher's hour.
func (a *reportAsk) course(stderr io.Writer) error {
	cards, err := labreport.Cards()
	if err != nil {
		return err
	}
	scenarios, err := scenario.All()
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return labreport.WriteSlides(w, cards, scenarios, string(a.voice)) }
	if err := writeFile(a.slides, write); err != nil {
		return fmt.Errorf("--slides: %w", err)
	}
	fmt.Fprintln(stderr, a.say("wrote", "path", a.slides))
	return nil
}

// show writes everything. Notes come first, because they change how the rest must be read.
func (a *reportAsk) show(page report.Page, stdout, stderr io.Writer) error {
	for _, note := range page.Notes {
		fmt.Fprintln(stderr, note)
	}
	var runs []*loadtest.Result
	for _, g := range page.Groups {
		runs = append(runs, g.Runs...)
	}
	load := loadFlags{voice: a.voice, json: a.json, noColor: a.noColor}
	var err error
	if page.Diff != nil && a.json == "" {
		err = page.Diff.WriteText(stdout, string(a.voice))
	} else {
		err = load.show(runs, stdout)
	}
	return errors.Join(err, a.write(page, stderr))
}

// sides compares two sides.
func (a *reportAsk) sides(args []string, stdout, stderr io.Writer) error {
	if len(args) != 2 {
		return failure("report.two-sides", "given", len(args))
	}
	page := report.Page{Lang: string(a.voice), Commit: commit(), Groups: make([]report.Group, 2)}
	for i, side := range args {
		paths, err := expand(side)
		if err != nil {
			return err
		}
		page.Groups[i].Title = fmt.Sprintf("%c: %s", 'A'+i, side)
		for _, path := range paths {
			result, note, err := a.readRun(path)
			if err != nil {
				return err
			}
			if note != "" {
				page.Notes = append(page.Notes, note)
			}
			page.Groups[i].Runs = append(page.Groups[i].Runs, result)
		}
	}
	page.Title = a.say("report.comparison")
	page.Diff = report.Compare(args[0], page.Groups[0].Runs, args[1], page.Groups[1].Runs)
	return a.show(page, stdout, stderr)
}

// readRun reads and judges a history. note explains a history that is not complete.
func (a *reportAsk) readRun(path string) (r *loadtest.Result, note string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	h, err := loadtest.ReadHistory(file)
	switch {
	case errors.Is(err, loadtest.ErrCut):
		note = a.say("report.cut", "path", path, "why", err, "n", len(h.Records))
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", path, err)
	case h.End == nil:
		note = a.say("report.no-end", "path", path, "n", len(h.Records))
	}
	return h.Result(), note, nil
}

// reportFlags holds the files that a command may write about runs, besides its output.
type reportFlags struct {
	voice
	html, csv, jtl, svg, png, porcupine string
}

func (f *reportFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.html, "html", "", "")
	flags.StringVar(&f.csv, "csv", "", "")
	flags.StringVar(&f.jtl, "jtl", "", "")
	flags.StringVar(&f.svg, "svg", "", "")
	flags.StringVar(&f.png, "png", "", "")
	flags.StringVar(&f.porcupine, "porcupine-html", "", "")
}

// check reports the files that cannot be written, before anything starts.
func (f *reportFlags) check() error {
	for flag, path := range map[string]string{
		"html": f.html, "csv": f.csv, "jtl": f.jtl,
		"porcupine-html": f.porcupine, "svg": f.svg, "png": f.png,
	} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		folder := flag == "svg" || flag == "png"
		switch {
		case err == nil && info.IsDir() != folder && folder:
			return &loadtest.PlanError{Field: flag, Reason: phrases.Say("wrong.no-folder", "path", path)}
		case err == nil && info.IsDir() != folder:
			return &loadtest.PlanError{Field: flag, Reason: phrases.Say("wrong.no-file", "path", path)}
		case err != nil:
			if err := checkFile(filepath.Clean(path)); err != nil {
				return &loadtest.PlanError{Field: flag, Reason: words.Of(err)}
			}
		}
	}
	return nil
}

// write writes the requested files, as many as it can, and names each on stderr.
func (f *reportFlags) write(page report.Page, stderr io.Writer) error {
	var runs []*loadtest.Result
	for _, g := range page.Groups {
		runs = append(runs, g.Runs...)
	}
	var failed []error
	file := func(flag, path string, write func(io.Writer) error) {
		if path == "" {
			return
		}
		if err := writeFile(path, write); err != nil {
			failed = append(failed, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		fmt.Fprintln(stderr, f.say("wrote", "path", path))
	}
	file("html", f.html, func(w io.Writer) error { return report.WriteHTML(w, page) })
	file("csv", f.csv, func(w io.Writer) error { return report.WriteCSV(w, runs) })
	file("jtl", f.jtl, func(w io.Writer) error { return report.WriteJTL(w, runs) })
	for format, dir := range map[string]string{report.SVG: f.svg, report.PNG: f.png} {
		if dir == "" {
			continue
		}
		names, err := report.WritePictures(dir, format, string(f.voice), runs)
		if err != nil {
			failed = append(failed, fmt.Errorf("--%s: %w", format, err))
		}
		fmt.Fprintln(stderr, f.say("wrote-pictures", "n", len(names), "path", dir))
	}
	if f.porcupine != "" && len(runs) != 1 {
		failed = append(
			failed,
			&loadtest.PlanError{
				Field:  "porcupine-html",
				Reason: phrases.Say("wrong.not-single", "n", len(runs)),
			},
		)
	} else if len(runs) == 1 {
		file("porcupine-html", f.porcupine, func(w io.Writer) error { return loadtest.WriteLinear(w, runs[0]) })
	}
	return errors.Join(failed...)
}

// expand lists the histories of one side: those of a folder, or those separated by commas.
func expand(side string) ([]string, error) {
	info, err := os.Stat(side)
	if err != nil || !info.IsDir() {
		// A file may have a comma in its name.
		if err == nil {
			return []string{side}, nil
		}
		return strings.Split(side, ","), nil
	}
	paths, err := filepath.Glob(filepath.Join(side, "*.jsonl"))
	if err == nil && len(paths) == 0 {
		err = failure("report.empty-folder", "path", side)
	}
	return paths, err
}
