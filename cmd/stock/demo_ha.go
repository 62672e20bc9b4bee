package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/lab/failover"
	"example.com/stock/lock/locktest/server"
)

// highAvailability is the demonstration in which every server fails over.
func (d *demo) highAvailability(ctx context.Context) error {
	// go-redis prints every refused connection, and servers are killed on purpose.
	app.LogRedis(slog.New(slog.DiscardHandler))
	report, err := failover.Run(ctx, failover.Options{
		Short: d.short, Server: d.showServers(d.err, true),
		Say: func(at time.Duration, text words.Text) {
			fmt.Fprintf(d.err, "  %6.1fs  %s\n", at.Seconds(), d.in(text))
		},
	})
	var missing *server.MissingError
	switch {
	case errors.As(err, &missing):
		return exitError{exitSkipped, err}
	case err != nil:
		return err
	}
	failover.Writer{Writer: d.out, Lang: string(d.voice)}.Report(report)
	if d.json != "" {
		if err := writeJSON(d.json, indented(report)); err != nil {
			return err
		}
	}
	if len(report.Violations()) > 0 {
		return exitError{exitVerdict, nil}
	}
	return nil
}

// checkHA returns an error for a flag that has no effect with, or without, --ha.
func (d *demo) checkHA(cmd *cobra.Command) error {
	if !d.ha {
		if d.short {
			return failure("wrong.without-ha", "flag", "short")
		}
		return nil
	}
	for _, flag := range []string{
		"store", "strategies", "instances", "concurrency", "requests", "checkout", "keep", "html", "histories",
		"no-color",
	} {
		if cmd.Flags().Changed(flag) {
			return failure("wrong.with-ha", "flag", flag)
		}
	}
	if err := checkFile(d.json); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}
