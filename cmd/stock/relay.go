package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func relayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Deliver the movements of the ledger as events, and decide about those that were refused",
		Long: `Deliver the movements of the ledger as events, to Redis Streams or a webhook (docs/events.md).

It does what "stock serve" does with relay.enabled, without serving. One relay at a time works; others wait for its
lock, and go on where it stopped. The schema must be there: "stock migrate up", or any instance, makes it.

An event that its receiver refuses relay.attempts times is parked, and the later events of its SKU wait. A person looks
at it with "stock relay dead", mends the receiver and says "stock relay retry", or leaves the event out for good with
"stock relay skip". A running relay follows within a second.`,
		Example: "  stock relay --store mysql\n" +
			"  stock relay --store mysql --relay-sink webhook --relay-webhook-url https://example.com/hook\n" +
			"  stock relay dead --store mysql\n" +
			"  stock relay retry book/17 --store mysql\n" +
			"  stock relay retry --all --store mysql",
		Args: cobra.NoArgs,
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
	var all bool
	retry := relayVerb("retry [SKU/NUMBER | --all]", "Send a parked event again, and then those that wait for it",
		func(_ *cobra.Command, names []string) error {
			if len(names) > 1 || all == (len(names) == 1) {
				return errors.New("name one event, as stock relay dead shows it, or say --all")
			}
			return nil
		},
		func(ctx context.Context, dead *app.DeadLetters, out io.Writer, names []string) error {
			if all {
				return dead.RetryAll(ctx, func(name string) { fmt.Fprintf(out, "%s is sent again\n", name) })
			}
			err := dead.Retry(ctx, names[0])
			if err == nil {
				fmt.Fprintf(out, "%s is sent again\n", names[0])
			}
			return err
		})
	retry.Example = "  stock relay retry book/17 --store mysql\n  stock relay retry --all --store mysql"
	retry.Flags().BoolVar(&all, "all", false, "all events that are parked and that nobody has decided about")
	cmd.AddCommand(
		relayVerb("dead", "List the events that are parked", cobra.NoArgs, listDead),
		retry,
		relayVerb("skip SKU/NUMBER", "Leave a parked event out for good, and send those that wait for it",
			cobra.ExactArgs(1),
			func(ctx context.Context, dead *app.DeadLetters, out io.Writer, names []string) error {
				err := dead.Skip(ctx, names[0])
				if err == nil {
					fmt.Fprintf(out, "%s is left out\n", names[0])
				}
				return err
			}),
	)
	return cmd
}

// relayVerb returns a subcommand that works on the dead letters.
func relayVerb(
	use, short string, args cobra.PositionalArgs,
	do func(ctx context.Context, dead *app.DeadLetters, out io.Writer, args []string) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err != nil {
				return err
			}
			dead, err := app.OpenDeadLetters(cfg, lockLogger(cmd.ErrOrStderr(), cfg))
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			return errors.Join(do(ctx, dead, cmd.OutOrStdout(), args), dead.Close())
		},
	}
	app.AddFlags(cmd.Flags())
	return cmd
}

func listDead(ctx context.Context, dead *app.DeadLetters, out io.Writer, _ []string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	n := 0
	err := dead.Each(ctx, func(d app.DeadLetter) error {
		if n++; n == 1 {
			fmt.Fprintln(table, "EVENT\tPARKED\tATTEMPTS\tVERDICT\tREASON")
		}
		verdict := d.Verdict
		if verdict == "" {
			verdict = "-"
		}
		fmt.Fprintf(table, "%s/%d\t%s\t%d\t%s\t%q\n",
			d.SKU, d.Number, d.ParkedAt.UTC().Format(time.RFC3339), d.Attempts, verdict, d.Reason)
		return nil
	})
	if n == 0 && err == nil {
		fmt.Fprintln(table, "No event is parked.")
	}
	return errors.Join(err, table.Flush())
}
