package app

import (
	"context"
	"errors"
	"log/slog"

	"example.com/stock/repo"
)

// A Migration is one step of the schema.
type Migration = repo.Migration

// A Migrator brings the MySQL schema up or down. The caller must close it.
type Migrator struct {
	*repo.Migrator
	app *App
}

// OpenMigrator connects to the database of the configuration.
func OpenMigrator(ctx context.Context, cfg Config) (*Migrator, error) {
	if cfg.MySQL.DSN == "" {
		return nil, phrases.Error("no-dsn")
	}
	m := &Migrator{app: newApp(cfg, "", slog.New(slog.DiscardHandler))}
	steps, connections, err := m.app.migrator(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	m.Migrator = steps
	if err := connections.PingContext(ctx); err != nil {
		return nil, errors.Join(phrases.Error("no-mysql", "why", err), m.Close())
	}
	return m, nil
}

func (m *Migrator) Close() error { return m.app.close() }
