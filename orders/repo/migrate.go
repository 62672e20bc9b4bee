package repo

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"

	"example.com/stock/orders/service"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ErrSchema: the schema is older than this program.
var ErrSchema = errors.New("the schema is old: run orders migrate")

// Migrate applies the migrations that are missing, and returns their names. Several instances may call it at once: one
// migrates, and the others wait for it, as long as ctx lasts.
func (s *Store) Migrate(ctx context.Context) (applied []string, err error) {
	pool := sql.OpenDB(s.patient)
	defer pool.Close()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", explain(err))
	}
	defer conn.Close() // which also gives the lock back, should RELEASE_LOCK fail
	const name = "CONCAT(DATABASE(), '.orders.migrate')"
	var locked sql.NullBool
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK("+name+", 60)").Scan(&locked); err != nil {
		return nil, fmt.Errorf("migrate: wait for the other instances: %w", explain(err))
	}
	if !locked.Bool {
		return nil, fmt.Errorf("migrate: another instance has been migrating for a minute: %w", service.ErrBusy)
	}
	defer func() { _, _ = conn.ExecContext(context.WithoutCancel(ctx), "DO RELEASE_LOCK("+name+")") }()
	p, err := newProvider(pool)
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	for _, r := range results {
		applied = append(applied, r.Source.Path)
	}
	return applied, explain(err)
}

// Ready fails if the database does not answer, or its schema is older than this program. A newer one is no error: the
// old version still runs while the new one is deployed.
func (s *Store) Ready(ctx context.Context) error {
	var version int64
	row := s.db.WithContext(ctx).Raw("SELECT COALESCE(MAX(version_id), 0) FROM " + goose.DefaultTablename).Row()
	err := row.Scan(&version)
	switch {
	case number(err) == noSuchTable || err == nil && version < newest():
		return ErrSchema
	case err != nil:
		return explain(err)
	}
	return nil
}

func newProvider(pool *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectMySQL, pool, files)
}

// newest returns the version of the last migration.
func newest() (version int64) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0
	}
	for _, f := range files {
		if v, err := goose.NumericComponent(f); err == nil {
			version = max(version, v)
		}
	}
	return version
}
