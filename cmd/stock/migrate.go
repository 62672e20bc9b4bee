package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/app"
)

func migrateCommand(v voice) *cobra.Command {
	return parent(
		"migrate",
		migrateVerb("up", v.migrateUp),
		migrateVerb("down", v.migrateDown),
		migrateVerb("status", v.migrateStatus),
	)
}

// migrateVerb returns a subcommand that prints the result of do.
func migrateVerb(use string, do func(context.Context, *app.Migrator) (string, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			m, err := app.OpenMigrator(ctx, cfg)
			if err != nil {
				return err
			}
			defer func() { _ = m.Close() }()
			text, err := do(ctx, m)
			if err == nil {
				fmt.Fprintln(cmd.OutOrStdout(), text)
			}
			return err
		},
	}
	return settings(cmd)
}

func (v voice) migrateUp(ctx context.Context, m *app.Migrator) (string, error) {
	applied, err := m.Up(ctx)
	return v.listMigrations("migrate.applied", applied), err
}

func (v voice) migrateDown(ctx context.Context, m *app.Migrator) (string, error) {
	var undone []app.Migration
	last, err := m.Down(ctx)
	if last != nil {
		undone = append(undone, *last)
	}
	return v.listMigrations("migrate.undone", undone), err
}

func (v voice) migrateStatus(ctx context.Context, m *app.Migrator) (string, error) {
	all, err := m.Status(ctx)
	var text strings.Builder
	for _, step := range all {
		when := v.say("migrate.pending")
		if !step.AppliedAt.IsZero() {
			when = v.say("migrate.applied-at", "at", step.AppliedAt.UTC().Format(time.DateTime)+" UTC")
		}
		fmt.Fprintf(&text, "%-30s %s\n", step.Name, when)
	}
	return strings.TrimSuffix(text.String(), "\n"), err
}

func (v voice) listMigrations(key string, steps []app.Migration) string {
	if len(steps) == 0 {
		return v.say("migrate.nothing")
	}
	names := make([]string, len(steps))
	for i, step := range steps {
		names[i] = step.Name
	}
	return phrases.Say(key, "steps", strings.Join(names, ", ")).In(string(v))
}
