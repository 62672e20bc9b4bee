package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/lab/soak"
	"example.com/stock/lock/locktest/server"
)

// A failoverRun holds the flags of "stock lab failover".
type failoverRun struct {
	voice
	short    bool
	json     string
	out, err io.Writer
}

func labFailoverCommand(v voice) *cobra.Command {
	r := failoverRun{voice: v}
	cmd := &cobra.Command{
		Use:  "failover",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if err := checkFile(r.json); err != nil {
				return fmt.Errorf("--json: %w", err)
			}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&r.short, "short", false, "")
	cmd.Flags().StringVar(&r.json, "json", "", "")
	return cmd
}

func (r *failoverRun) run(ctx context.Context) error {
	// go-redis prints every refused connection, and servers are killed on purpose.
	app.LogRedis(slog.New(slog.DiscardHandler))
	report, err := soak.FailOver{
		Short: r.short, Options: soak.Options{
			Server: r.showServers(r.err, true),
			Say: func(at time.Duration, text words.Text) {
				fmt.Fprintf(r.err, "  %6.1fs  %s\n", at.Seconds(), r.in(text))
			},
		},
	}.Run(ctx)
	var missing *server.MissingError
	switch {
	case errors.As(err, &missing):
		return exitError{exitSkipped, err}
	case err != nil && ctx.Err() != nil:
		return exitError{exitInterrupted, failure("interrupted.no-verdict-stopped")}
	case err != nil:
		return err
	}
	soak.Writer{Writer: r.out, Lang: string(r.voice)}.FailOver(report)
	if r.json != "" {
		if err := writeJSON(r.json, indented(report)); err != nil {
			return err
		}
	}
	if len(report.Violations()) > 0 {
		return exitError{exitVerdict, nil}
	}
	return nil
}
