package app

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"example.com/stock/repo"
)

// A Migration is one step of the schema.
type Migration = repo.Migration

// A Migrator brings the MySQL schema up or down. The caller must close it.
type Migrator struct {
	*repo.Migrator
	connections *sql.DB
}

// OpenMigrator connects to the database of the configuration.
func OpenMigrator(ctx context.Context, cfg Config) (*Migrator, error) {
	if cfg.MySQL.DSN == "" {
		return nil, isEmpty("mysql.dsn", "mysql-dsn", "STOCK_MYSQL_DSN")
	}
	a := newApp(cfg, "", slog.New(slog.DiscardHandler))
	secure, err := a.client("mysql.tls.", cfg.MySQL.TLS)
	if err != nil {
		return nil, err
	}
	db, connections, err := pool(repo.OpenMySQL(cfg.MySQL.DSN, repo.Pool{Open: 2, TLS: secure}))
	if err != nil {
		return nil, err
	}
	m := &Migrator{connections: connections}
	if err := connections.PingContext(ctx); err != nil {
		err = failure("no-mysql", "why", err)
		return nil, errors.Join(err, m.Close())
	}
	if m.Migrator, err = repo.NewMigrator(db); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Migrator) Close() error { return m.connections.Close() }
