package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/lock"
	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// archiveDir is where archives are unless somebody says otherwise.
const archiveDir = "archive"

func archiveCommand(v voice) *cobra.Command {
	var o archive.Options
	var before string
	var asJSON bool
	cmd := &cobra.Command{
		Use:  "archive --before DATE",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Before, err = parseBefore(before); err != nil {
				return err
			}
			if o.Batch < 1 || o.Batch > archive.MaxBatch {
				return failure("archive.batch", "most", archive.MaxBatch)
			}
			return opened(cmd, app.OpenArchive, func(ctx context.Context, a *app.Archive) error {
				out := cmd.OutOrStdout()
				line := v.progress(cmd.ErrOrStderr())
				o.Progress = func(r archive.Report) { line(v.say("archive.progress", counts(r)[2:]...)) }
				done, err := a.Run(ctx, o)
				line("")
				v.showArchived(out, done, o, asJSON)
				return archiveFailure(ctx, err)
			})
		},
	}
	app.AddFlags(cmd.Flags())
	cmd.Flags().StringVar(&before, "before", "", "")
	cmd.Flags().StringVar(&o.Dir, "to", archiveDir, "")
	cmd.Flags().IntVar(&o.Batch, "batch", 1000, "")
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "")
	cmd.Flags().BoolVar(&o.Undelivered, "undelivered", false, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	cmd.AddCommand(archiveVerify(v))
	return cmd
}

func archiveVerify(v voice) *cobra.Command {
	var offline, asJSON bool
	cmd := &cobra.Command{
		Use: "verify [FILE | DIR]...",
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				paths = []string{archiveDir}
			}
			if offline {
				check, err := archive.Verify(cmd.Context(), nil, paths)
				return v.showVerified(cmd, check, err, asJSON)
			}
			return opened(cmd, app.OpenArchive, func(ctx context.Context, a *app.Archive) error {
				check, err := a.Verify(ctx, paths)
				return v.showVerified(cmd, check, err, asJSON)
			})
		},
	}
	app.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&offline, "offline", false, "")
	cmd.Flags().BoolVar(&asJSON, "json", false, "")
	return cmd
}

// parseBefore reads a day, which begins in UTC, or a time.
func parseBefore(text string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, failure("archive.before", "given", text)
}

// progress returns a func that shows a line in the place of the one before it, on a terminal alone.
func (v voice) progress(w io.Writer) func(line string) {
	if width(w) == 0 {
		return func(string) {}
	}
	return func(line string) { fmt.Fprint(w, "\r\x1b[K", line) }
}

func counts(r archive.Report) []any {
	return []any{
		"parts", r.Parts, "movements", r.Movements, "orders", r.Orders, "reservations", r.Reservations,
	}
}

func (v voice) showArchived(out io.Writer, r archive.Report, o archive.Options, asJSON bool) {
	if asJSON {
		line, _ := json.Marshal(r) // numbers and texts: it cannot fail
		fmt.Fprintf(out, "%s\n", line)
		return
	}
	key, said := "archive.done", append(counts(r), "dir", o.Dir)
	if o.DryRun {
		key, said = "archive.would", counts(r)
	}
	fmt.Fprintln(out, v.say(key, said...))
	if r.Resumed > 0 {
		fmt.Fprintln(out, "  "+v.say("archive.resumed", "n", r.Resumed))
	}
	if r.Changed > 0 {
		fmt.Fprintln(out, "  "+v.say("archive.changed", "n", r.Changed))
	}
	if r.Behind > 0 {
		fmt.Fprintln(out, "  "+v.say("archive.behind", "n", r.Behind, "kept", r.Kept))
	}
}

// archiveFailure says in the words of the command what a run has failed with.
func archiveFailure(ctx context.Context, err error) error {
	young, is := errors.AsType[*archive.YoungError](err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return exitError{exitInterrupted, failure("archive.interrupted")}
	case is:
		return failure("archive.young", "latest", young.Latest.UTC().Format(time.RFC3339))
	case errors.Is(err, archive.ErrDue):
		return failure("archive.due")
	case errors.Is(err, archive.ErrForeign):
		return failure("archive.foreign", "why", err)
	case errors.Is(err, archive.ErrRunning), errors.Is(err, order.ErrTaken), errors.Is(err, os.ErrExist):
		return failure("archive.taken", "why", err)
	case errors.Is(err, lock.ErrDown):
		return exitError{exitTarget, err}
	}
	return err
}

func (v voice) showVerified(cmd *cobra.Command, c archive.Check, err error, asJSON bool) error {
	out := cmd.OutOrStdout()
	if err != nil {
		return archiveFailure(cmd.Context(), err)
	}
	if asJSON {
		line, _ := json.Marshal(c) // numbers and texts: it cannot fail
		fmt.Fprintf(out, "%s\n", line)
	} else {
		verdict := "archive.whole"
		if len(c.Problems) > 0 {
			verdict = "archive.not-whole"
		}
		fmt.Fprintln(out, v.say("archive.check", "parts", c.Parts, "movements", c.Movements, "skus", c.SKUs,
			"orders", c.Orders, "reservations", c.Reservations, "verdict", phrases.Say(verdict)))
		for _, p := range c.Problems {
			fmt.Fprintln(out, "  "+v.archiveProblem(p))
		}
	}
	if len(c.Problems) > 0 {
		return exitError{exitVerdict, failure("archive.wrong", "n", len(c.Problems))}
	}
	return nil
}

// archiveProblem says what is wrong with an archive. A kind that has no text here says it in English.
func (v voice) archiveProblem(p archive.Problem) string {
	switch p.Kind {
	case archive.Damaged:
		return v.say("archive.problem.damaged", "why", p.Why)
	case archive.Missing:
		return v.say("archive.problem.missing", "part", p.Part)
	case archive.Broken:
		return v.say("archive.problem.broken", "file", p.File, "part", p.Part)
	case archive.Stale:
		return v.say("archive.problem.stale", "part", p.Part)
	case archive.Sequence:
		return v.say("archive.problem.sequence", "sku", p.SKU, "number", p.Number, "part", p.Part)
	case archive.Sum:
		return v.say("archive.problem.sum", "sku", p.SKU, "part", p.Part, "number", p.Number)
	case archive.Twice:
		return v.say("archive.problem.twice", "id", p.ID, "part", p.Part)
	case archive.Remains:
		return v.say("archive.problem.remains", "id", p.ID)
	case archive.Units:
		return v.say("archive.problem.units", "id", p.ID, "sku", p.SKU)
	case archive.Lost:
		return v.say("archive.problem.lost", "sku", p.SKU, "id", p.ID)
	case archive.Unmatched:
		return v.say("archive.problem.unmatched", "sku", p.SKU, "number", p.Number)
	case archive.Unbalance:
		return v.say("archive.problem.unbalance", "sku", p.SKU, "why", p.Why)
	}
	return p.String()
}
