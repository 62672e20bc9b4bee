package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"example.com/stock/repo"
)

func migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "migrate",
		Short:   "Bring the MySQL schema up or down, or show its state",
		Example: "  stock migrate status\n  STOCK_MYSQL_DSN='stock:secret@tcp(db:3306)/stock' stock migrate up",
		// With a RunE of its own it refuses a word that is no verb; without, it would show its help and exit with 0.
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	verb := func(use, short string, do func(context.Context, *repo.Migrator) (string, error)) {
		sub := &cobra.Command{
			Use: use, Short: short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				text, err := withMigrator(cmd, do)
				if err == nil {
					fmt.Fprintln(cmd.OutOrStdout(), text)
				}
				return err
			},
		}
		addConfigFlags(sub.Flags())
		cmd.AddCommand(sub)
	}
	verb("up", "Apply every migration that is missing", func(ctx context.Context, m *repo.Migrator) (string, error) {
		applied, err := m.Up(ctx)
		return listMigrations("applied", applied), err
	})
	verb("down", "Take back the last migration, with the stock and the orders in its tables", func(ctx context.Context, m *repo.Migrator) (string, error) {
		undone, err := m.Down(ctx)
		if undone == nil {
			return listMigrations("taken back", nil), err
		}
		return listMigrations("taken back", []repo.Migration{*undone}), err
	})
	verb("status", "List the migrations, and when each was applied", func(ctx context.Context, m *repo.Migrator) (string, error) {
		all, err := m.Status(ctx)
		var text strings.Builder
		for _, step := range all {
			when := "pending"
			if !step.AppliedAt.IsZero() {
				when = "applied " + step.AppliedAt.UTC().Format(time.DateTime) + " UTC"
			}
			fmt.Fprintf(&text, "%-30s %s\n", step.Name, when)
		}
		return strings.TrimSuffix(text.String(), "\n"), err
	})
	return cmd
}

func listMigrations(verb string, steps []repo.Migration) string {
	if len(steps) == 0 {
		return "nothing to do"
	}
	names := make([]string, len(steps))
	for i, step := range steps {
		names[i] = step.Name
	}
	return verb + ": " + strings.Join(names, ", ")
}

func withMigrator(cmd *cobra.Command, do func(context.Context, *repo.Migrator) (string, error)) (string, error) {
	cfg, _, err := loadConfig(cmd.Flags())
	if err != nil {
		return "", err
	}
	if cfg.MySQL.DSN == "" {
		return "", errors.New("mysql.dsn is empty: set it with --mysql-dsn or STOCK_MYSQL_DSN")
	}
	db, err := repo.OpenMySQL(cfg.MySQL.DSN, repo.Pool{Open: 2})
	if err != nil {
		return "", fmt.Errorf("open mysql: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return "", fmt.Errorf("open mysql: %w", err)
	}
	defer pool.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
	defer cancel()
	if err := pool.PingContext(ctx); err != nil {
		return "", fmt.Errorf("reach mysql (is --mysql-dsn right, and the server up?): %w", err)
	}
	migrator, err := repo.NewMigrator(db)
	if err != nil {
		return "", err
	}
	return do(ctx, migrator)
}
