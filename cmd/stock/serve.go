package main

import (
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:  "serve",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err != nil {
				return err
			}
			if os.Getenv("GOGC") == "" {
				// What lives is a few MB, so the collector would run many times a second. GOMEMLIMIT still holds.
				debug.SetGCPercent(400)
			}
			log := app.NewLogger(cmd.ErrOrStderr(), cfg)
			app.LogRedis(log)
			a, err := app.New(cfg, version, log)
			if err != nil {
				return err
			}
			return a.Run(cmd.Context())
		},
	}
	return settings(cmd)
}
