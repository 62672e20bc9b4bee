package main

import (
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/internal/starter"
)

func newCommand(v voice) *cobra.Command {
	c := starter.Choice{Version: version}
	if commit := app.Commit(); commit != "unknown" {
		c.Version += " " + commit
	}
	cmd := &cobra.Command{
		Use:  "new DIR --module PATH",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := starter.New(args[0], c); err != nil {
				return err
			}
			tidy := exec.CommandContext(cmd.Context(), "go", "mod", "tidy")
			tidy.Dir = args[0]
			if said, err := tidy.CombinedOutput(); err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), v.say("new.untidy", "why", err, "said", string(said)))
			}
			fmt.Fprintln(cmd.OutOrStdout(), v.say("new.done", "module", c.Module, "dir", args[0]))
			return nil
		},
	}
	cmd.Flags().StringVar(&c.Module, "module", "", "")
	cmd.Flags().StringSliceVar(&c.Strategies, "strategies", []string{"atomic"}, "")
	cmd.Flags().StringSliceVar(&c.Stores, "stores", []string{"mysql"}, "")
	return cmd
}
