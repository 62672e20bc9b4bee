package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"example.com/stock/orders/repo"
)

func outboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "outbox", Short: "Decide about events that the receiver has refused too often", Args: cobra.NoArgs,
	}
	c.AddCommand(&cobra.Command{
		Use: "list", Short: "List the oldest parked events, 100 at most, and what waits", Args: cobra.NoArgs,
		RunE: withStore(func(c *cobra.Command, s *repo.Store, _ []string) error {
			events, err := s.List(c.Context())
			if err != nil {
				return err
			}
			backlog, err := s.Backlog(c.Context())
			if err != nil {
				return err
			}
			for _, e := range events {
				fmt.Fprintf(c.OutOrStdout(), "%s refused %d times: %q\n", e.Name(), e.Refusals, e.Reason)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%d parked, %d waiting, the oldest for %s.\n",
				backlog.Parked, backlog.Waiting, backlog.Late)
			return err
		}),
	}, decide("retry", "Send a parked event again", (*repo.Store).Retry),
		decide("skip", "Never send a parked event; the receiver sees a gap in its SKU's numbers", (*repo.Store).Skip))
	return c
}

func decide(name, short string, do func(*repo.Store, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " EVENT", Short: short, Example: "  orders outbox " + name + " tea.7", Args: cobra.ExactArgs(1),
		RunE: withStore(func(c *cobra.Command, s *repo.Store, args []string) error {
			return do(s, c.Context(), args[0])
		}),
	}
}
