package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

// noArgs checks arguments as that of cobra does, in both languages.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return failure("args.unknown",
			"name", strconv.Quote(args[0]), "command", strconv.Quote(cmd.CommandPath()))
	}
	return nil
}
