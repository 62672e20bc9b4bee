package repo

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrateWait bounds the wait for another instance that is migrating. The present migrations take milliseconds; a later
// one may rewrite a table.
const migrateWait = 60 * time.Second

// A Migration is a step of the schema.
type Migration struct {
	Version   int64
	Name      string    // of its file
	AppliedAt time.Time // zero: pending
}

// A Migrator brings the schema up and down. It is safe for concurrent use, also by several instances that start at the
// same moment: one migrates, the others wait for it and find nothing left to do. It uses two connections at a time.
type Migrator struct {
	db      *sql.DB
	files   fs.FS
	version int64 // that this program needs
}

// NewMigrator returns a Migrator for a database that [OpenMySQL] opened. It does not connect.
func NewMigrator(db *gorm.DB) (*Migrator, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, fmt.Errorf("open migrations: %w", err)
	}
	m := &Migrator{db: pool, files: files}
	p, err := m.provider()
	if err != nil {
		return nil, err
	}
	for _, source := range p.ListSources() {
		m.version = max(m.version, source.Version)
	}
	return m, nil
}

// provider returns a new provider for each use: goose tries to create its table of versions once per provider, and
// takes a failure for done.
func (m *Migrator) provider() (*goose.Provider, error) {
	p, err := goose.NewProvider(goose.DialectMySQL, m.db, m.files)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}

// Up applies the pending steps and returns them.
func (m *Migrator) Up(ctx context.Context) (applied []Migration, err error) {
	err = m.exclusively(ctx, "migrate up", func(p *goose.Provider) error {
		results, err := p.Up(ctx)
		for _, r := range results {
			applied = append(applied, Migration{r.Source.Version, path.Base(r.Source.Path), time.Now()})
		}
		return err
	})
	return applied, err
}

// Down undoes the last step that was applied, with all the data in it, and returns it, or nil if there is none.
func (m *Migrator) Down(ctx context.Context) (undone *Migration, err error) {
	err = m.exclusively(ctx, "migrate down", func(p *goose.Provider) error {
		r, err := p.Down(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}
		if r != nil {
			undone = &Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path)}
		}
		return err
	})
	return undone, err
}

// Status lists all steps, the first first.
func (m *Migrator) Status(ctx context.Context) (all []Migration, err error) {
	err = m.exclusively(ctx, "read migrations", func(p *goose.Provider) error {
		status, err := p.Status(ctx)
		for _, s := range status {
			all = append(all, Migration{s.Source.Version, path.Base(s.Source.Path), s.AppliedAt})
		}
		return err
	})
	return all, err
}

// Check returns nil if the schema is what this program needs, or newer: during a rolling update old instances go on.
// Otherwise the error matches lock.ErrDown and its text names the fix. It is one round trip, for a health probe.
func (m *Migrator) Check(ctx context.Context) error {
	const doing = "check schema"
	var version sql.NullInt64
	err := m.db.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+goose.DefaultTablename).Scan(&version)
	switch {
	case err != nil:
		return MySQLFault(ctx, doing, err)
	case version.Int64 < m.version:
		old := lock.NewDown("mysql", "wrong-schema", "has", version.Int64, "wants", m.version)
		return fmt.Errorf("%s: %w", doing, old)
	}
	return nil
}

// exclusively runs do while no other instance migrates this database.
//
// The lock is GET_LOCK, which the server frees when the connection ends, so a crash leaves nothing behind. goose's own
// locker for MySQL is a table with a lease of 30 s that is polled every 5 s, and goose creates its table of versions
// before it locks.
func (m *Migrator) exclusively(ctx context.Context, doing string, do func(*goose.Provider) error) error {
	p, err := m.provider()
	if err != nil {
		return err
	}
	conn, err := m.db.Conn(ctx)
	if err != nil {
		return MySQLFault(ctx, doing, err)
	}
	defer conn.Close()

	// Named locks belong to the whole server, so the name contains the database. It is a digest because the limit is 64
	// characters.
	const name = "CONCAT('stock.migrate.', MD5(DATABASE()))"
	var got sql.NullInt64
	err = conn.QueryRowContext(ctx, "SELECT GET_LOCK("+name+", ?)", int(migrateWait.Seconds())).Scan(&got)
	switch {
	case err != nil:
		return MySQLFault(ctx, doing, err)
	case got.Int64 != 1:
		return fmt.Errorf("%s: another instance has been migrating for %v: %w", doing, migrateWait, lock.ErrHeld)
	}
	defer func() {
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		if _, err := conn.ExecContext(free, "DO RELEASE_LOCK("+name+")"); err != nil {
			drop(conn)
		}
	}()
	if err := do(p); err != nil {
		if mysqlerr.Number(err) == 0 && ctx.Err() == nil && !unreachable(err) {
			return fmt.Errorf("%s: %w", doing, err) // an error of goose: the files are wrong, not the server
		}
		return MySQLFault(ctx, doing, err)
	}
	return nil
}
