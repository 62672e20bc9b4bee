package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"example.com/stock/app"
	"example.com/stock/lock"
)

// withZooKeeper adds the verb that changes nodes in ZooKeeper.
func withZooKeeper(v voice, migrate *cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: "zookeeper", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err != nil {
				return err
			}
			line := v.progress(cmd.ErrOrStderr())
			progress := func(seen, changed int) {
				if seen%100 == 0 {
					line(v.say("migrate-zookeeper.nodes", "seen", seen, "changed", changed))
				}
			}
			log := app.NewLogger(cmd.ErrOrStderr(), cfg)
			seen, changed, err := app.MigrateZooKeeper(cmd.Context(), cfg, log, progress)
			line("")
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), v.say("migrate-zookeeper.nodes", "seen", seen, "changed", changed))
			} else if errors.Is(err, lock.ErrDown) {
				err = exitError{exitTarget, err}
			}
			return err
		},
	}
	app.AddFlags(cmd.Flags())
	migrate.AddCommand(cmd)
	return migrate
}

// progress returns a func that shows a line in the place of the one before it, on a terminal alone.
func (v voice) progress(w io.Writer) func(line string) {
	if width(w) == 0 {
		return func(string) {}
	}
	return func(line string) { fmt.Fprint(w, "\r\x1b[K", line) }
}
