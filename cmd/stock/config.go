package main

import (
	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config",
		Example: "  stock config > stock.yaml && stock serve --config stock.yaml\n" +
			"  STOCK_REDIS_CLUSTER=true stock config --redis-addrs a:6379,b:6379",
		Short: "Print the configuration that holds, as YAML, with secrets masked",
		Long: "Print the configuration that would hold for 'stock serve' with the same file, environment and flags.\n" +
			"It can be used as a configuration file, once the secrets are filled in.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err == nil {
				cfg.WriteYAML(cmd.OutOrStdout())
			}
			return err
		},
	}
	app.AddFlags(cmd.Flags())
	return cmd
}
