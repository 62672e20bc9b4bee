package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func relayCommand(v voice) *cobra.Command {
	cmd := &cobra.Command{
		Use:  "relay",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err != nil {
				return err
			}
			log := app.NewLogger(cmd.ErrOrStderr(), cfg)
			app.LogRedis(log)
			r, err := app.OpenRelay(cfg, version, log)
			if err != nil {
				return err
			}
			return r.Run(cmd.Context())
		},
	}
	app.AddFlags(cmd.Flags())
	cmd.AddCommand(relayVerb("dead", noArgs, v.listDead), relayRetry(v), relaySkip(v))
	return cmd
}

func relayRetry(v voice) *cobra.Command {
	var all bool
	retry := relayVerb("retry [SKU/NUMBER | --all]",
		func(_ *cobra.Command, names []string) error {
			if len(names) > 1 || all == (len(names) == 1) {
				return failure("relay.which")
			}
			return nil
		},
		func(ctx context.Context, dead *app.DeadLetters, out io.Writer, names []string) error {
			again := func(name string) { fmt.Fprintln(out, v.say("relay.again", "event", name)) }
			if all {
				return dead.RetryAll(ctx, again)
			}
			err := dead.Retry(ctx, names[0])
			if err == nil {
				again(names[0])
			}
			return err
		})
	retry.Flags().BoolVar(&all, "all", false, "")
	return retry
}

func relaySkip(v voice) *cobra.Command {
	return relayVerb("skip SKU/NUMBER", exactly(1),
		func(ctx context.Context, dead *app.DeadLetters, out io.Writer, names []string) error {
			err := dead.Skip(ctx, names[0])
			if err == nil {
				fmt.Fprintln(out, v.say("relay.skipped", "event", names[0]))
			}
			return err
		})
}

// relayVerb returns a subcommand that works on the dead letters.
func relayVerb(
	use string, args cobra.PositionalArgs,
	do func(ctx context.Context, dead *app.DeadLetters, out io.Writer, args []string) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			return opened(cmd, app.OpenDeadLetters, func(ctx context.Context, dead *app.DeadLetters) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return do(ctx, dead, cmd.OutOrStdout(), args)
			})
		},
	}
	app.AddFlags(cmd.Flags())
	return cmd
}

func (v voice) listDead(ctx context.Context, dead *app.DeadLetters, out io.Writer, _ []string) error {
	var t table
	err := dead.Each(ctx, func(d app.DeadLetter) error {
		if len(t) == 0 {
			t.head(v.say("relay.columns"))
		}
		t.line(fmt.Sprintf("%s/%d", d.SKU, d.Number), d.ParkedAt.UTC().Format(time.RFC3339), strconv.Itoa(d.Attempts),
			cmp.Or(string(d.Decision), "-"), strconv.Quote(d.Reason))
		return nil
	})
	if len(t) == 0 && err == nil {
		t.line(v.say("relay.none"))
	}
	return errors.Join(err, t.print(out))
}
