package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/internal/words"
	"example.com/stock/lab/soak"
	"example.com/stock/lock/locktest/server"
)

// A faultySale is what "stock lab soak" and "stock lab failover" share: they sell while servers fail, and judge that.
type faultySale struct {
	voice
	json     string
	out, err io.Writer
}

// begin returns the options of a sale. With ready, it also names the servers that are ready.
func (s *faultySale) begin(cmd *cobra.Command, ready bool) (soak.Options, error) {
	s.out, s.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
	// go-redis prints every refused connection, and servers are killed on purpose.
	app.LogRedis(slog.New(slog.DiscardHandler))
	return soak.Options{
		Server: s.showServers(s.err, ready),
		Say: func(at time.Duration, text words.Text) {
			fmt.Fprintf(s.err, "  %6.1fs  %s\n", at.Seconds(), s.in(text))
		},
	}, checkOutput(cmd.Flags())
}

// unjudged returns the exit status of a sale without a verdict.
func (s *faultySale) unjudged(ctx context.Context, err error) error {
	switch {
	case errors.As(err, new(*server.MissingError)):
		return exitError{exitSkipped, err}
	case ctx.Err() != nil:
		return exitError{exitInterrupted, failure("interrupted.no-verdict-stopped")}
	}
	return err
}

// judged writes the report to the file of --json, and returns the exit status.
func (s *faultySale) judged(report any, violated, interrupted bool) error {
	if err := writeJSON(s.json, report); err != nil {
		return err
	}
	switch {
	case violated:
		return exitError{exitVerdict, nil}
	case interrupted:
		return exitError{exitInterrupted, nil}
	}
	return nil
}

func labSoakCommand(v voice) *cobra.Command {
	s := faultySale{voice: v}
	var plan soak.Random
	cmd := &cobra.Command{
		Use:  "soak",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			defer untilUnread(cmd)()
			if !cmd.Flags().Changed("seed") {
				plan.Seed = uint64(rand.Uint32())
			}
			if plan.Options, err = s.begin(cmd, false); err == nil {
				err = within("for", plan.For, time.Second, 24*time.Hour)
			}
			if err != nil {
				return err
			}
			return s.soak(cmd.Context(), plan)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.DurationVar(&plan.For, "for", 10*time.Minute, "")
	flags.Uint64Var(&plan.Seed, "seed", 0, "")
	flags.StringVar(&s.json, "json", "", "")
	return cmd
}

func (s *faultySale) soak(ctx context.Context, plan soak.Random) error {
	command := fmt.Sprintf("stock lab soak --for %v --seed %d", plan.For, plan.Seed)
	fmt.Fprintln(s.out, s.say("soak.again", "command", command))
	people := soak.Writer{Writer: s.out, Lang: string(s.voice)}
	people.Plan(plan.Plan())
	report, err := plan.Run(ctx)
	if err != nil {
		return s.unjudged(ctx, err)
	}
	people.Report(&report)
	return s.judged(&report, len(report.Violations()) > 0, report.Interrupted)
}

func labFailoverCommand(v voice) *cobra.Command {
	s := faultySale{voice: v}
	var plan soak.FailOver
	cmd := &cobra.Command{
		Use:  "failover",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			defer untilUnread(cmd)()
			if plan.Options, err = s.begin(cmd, true); err != nil {
				return err
			}
			report, err := plan.Run(cmd.Context())
			if err != nil {
				return s.unjudged(cmd.Context(), err)
			}
			soak.Writer{Writer: s.out, Lang: string(s.voice)}.FailOver(report)
			return s.judged(report, len(report.Violations()) > 0, false)
		},
	}
	cmd.Flags().BoolVar(&plan.Short, "short", false, "")
	cmd.Flags().StringVar(&s.json, "json", "", "")
	return cmd
}
