package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

// noArgs and atLeast check arguments as those of cobra do, in both languages.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return failure("args.unknown",
			"name", strconv.Quote(args[0]), "command", strconv.Quote(cmd.CommandPath()))
	}
	return nil
}

func atLeast(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < n {
			return failure("args.few", "least", n, "given", len(args))
		}
		return nil
	}
}
