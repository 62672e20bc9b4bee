package main

import (
	"fmt"

	"github.com/spf13/cobra"

	orders "example.com/stock/orders/cmd"
)

// ordersCommand is the order service, another program, which is here so that the lab and the load test need one binary.
// It explains its own commands and flags, in English.
func ordersCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "orders [command]",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			program := orders.Command(version)
			program.SetArgs(args)
			program.SetOut(cmd.OutOrStdout())
			program.SetErr(cmd.ErrOrStderr())
			err := program.ExecuteContext(cmd.Context())
			if err == nil {
				return nil
			}
			fmt.Fprintln(cmd.ErrOrStderr(), "orders:", err)
			return exitError{code: orders.Status(err)}
		},
	}
}
