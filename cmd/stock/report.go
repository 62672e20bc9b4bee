package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

func reportCommand(v voice) *cobra.Command {
	o := outputs{voice: v}
	cmd := &cobra.Command{
		Use: "report HISTORY...",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd.Flags()); err != nil {
				return err
			}
			return o.report(args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFiles(cmd.Flags())
	noColorFlag(cmd, &o.noColor)
	return cmd
}

// report shows the runs of histories. Notes come first, because they change how the rest must be read.
func (o *outputs) report(paths []string, stdout, stderr io.Writer) error {
	if len(paths) == 0 {
		return failure("report.no-history")
	}
	if len(paths) == 1 {
		if result, err := readCheckout(paths[0]); result != nil {
			return errors.Join(err, o.showCheckout(result, stdout, stderr))
		}
	}
	page := report.Page{Lang: string(o.voice), Commit: commit()}
	var runs []*loadtest.Result
	for _, path := range paths {
		result, note, err := o.readRun(path)
		if err != nil {
			return err
		}
		if note != "" {
			page.Notes = append(page.Notes, note)
			fmt.Fprintln(stderr, note)
		}
		runs = append(runs, result)
	}
	page.Groups = []report.Group{{Runs: runs}}
	return errors.Join(o.show(runs, stdout), o.writeReport(page, stderr))
}

// readRun reads and judges a history. note explains a history that is not complete.
func (v voice) readRun(path string) (r *loadtest.Result, note string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	h, err := loadtest.ReadHistory(file)
	switch {
	case errors.Is(err, loadtest.ErrCut):
		note = v.say("report.cut", "path", path, "why", err, "n", len(h.Records))
	case err != nil:
		return nil, "", fmt.Errorf("%s: %w", path, err)
	case h.End == nil:
		note = v.say("report.no-end", "path", path, "n", len(h.Records))
	}
	return h.Result(), note, nil
}
