package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// reportAsk holds the flags of report.
type reportAsk struct {
	reportFlags
	json    string
	noColor bool
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
	ask.add(flags)
	flags.StringVar(&ask.json, "json", "", "")
	noColorFlag(cmd, &ask.noColor)
	return cmd
}

func (a *reportAsk) run(args []string, stdout, stderr io.Writer) error {
	if err := a.check(); err != nil {
		return err
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

// show writes everything. Notes come first, because they change how the rest must be read.
func (a *reportAsk) show(page report.Page, stdout, stderr io.Writer) error {
	for _, note := range page.Notes {
		fmt.Fprintln(stderr, note)
	}
	var runs []*loadtest.Result
	for _, g := range page.Groups {
		runs = append(runs, g.Runs...)
	}
	load := loadFlags{runFlags: runFlags{voice: a.voice, json: a.json, noColor: a.noColor}}
	return errors.Join(load.show(runs, stdout), a.write(page, stderr))
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
	html string
}

func (f *reportFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.html, "html", "", "")
}

// check returns an error if the file cannot be written, before anything starts.
func (f *reportFlags) check() error {
	if f.html == "" {
		return nil
	}
	info, err := os.Stat(f.html)
	switch {
	case err == nil && info.IsDir():
		return wrong("html", failure("wrong.no-file", "path", f.html))
	case err != nil:
		if err := checkFile(filepath.Clean(f.html)); err != nil {
			return wrong("html", err)
		}
	}
	return nil
}

// write writes the page, if one was asked for, and names it on stderr.
func (f *reportFlags) write(page report.Page, stderr io.Writer) error {
	return f.writePage(stderr, func(w io.Writer) error { return report.WriteHTML(w, page) })
}

func (f *reportFlags) writePage(stderr io.Writer, write func(io.Writer) error) error {
	if f.html == "" {
		return nil
	}
	if err := writeFile(f.html, write); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	fmt.Fprintln(stderr, f.say("wrote", "path", f.html))
	return nil
}
