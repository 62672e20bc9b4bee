package cmd

import (
	"github.com/spf13/cobra"
)

func outboxCommand() *cobra.Command {
	c := &cobra.Command{Use: "outbox", Short: "Decide about events that were refused too often", Args: cobra.NoArgs}
	return c
}
