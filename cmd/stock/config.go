package main

import (
	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:  "config",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err == nil {
				cfg.WriteYAML(cmd.OutOrStdout())
			}
			return err
		},
	}
	return settings(cmd)
}
