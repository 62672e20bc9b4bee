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

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
)

// migrations are the steps of the schema. The numbers 10 to 18 and 20 to 22 are taken: earlier versions had other
// tables there, and a database that has them keeps them. A step with such a number would not be applied there.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrateWait limits the wait for another instance that is migrating. The present migrations take milliseconds, but a
// future one may rewrite a table.
const migrateWait = 60 * time.Second

// A Migration is a step of the schema.
type Migration struct {
	Version   int64
	Name      string    // file name
	AppliedAt time.Time // zero: pending
}

// A Migrator migrates the schema up and down. It is safe for concurrent use, even by several instances that start at
// the same moment: one instance migrates, and the others wait for it and then find no pending steps. It uses two
// connections at a time.
type Migrator struct {
	db      *sql.DB
	files   fs.FS
	version int64 // the version that this program needs
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

// provider returns a new provider for each use, because a goose provider tries only once to create its table of
// versions.
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

// Down undoes the last applied step, which drops the tables and columns that the step had created, with their data. It
// returns the step, or nil if none is applied.
func (m *Migrator) Down(ctx context.Context) (undone *Migration, err error) {
	err = m.exclusively(ctx, "migrate down", func(p *goose.Provider) error {
		r, err := p.Down(ctx)
		switch {
		case errors.Is(err, goose.ErrNoNextVersion):
			return nil
		case errors.Is(err, goose.ErrVersionNotFound):
			return fmt.Errorf("only the version of this program that applied the last step can undo it: %w", err)
		}
		if r != nil {
			undone = &Migration{Version: r.Source.Version, Name: path.Base(r.Source.Path)}
		}
		return err
	})
	return undone, err
}

// Status returns all steps in ascending order.
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

// Check is a health probe of one round trip. It returns nil if the schema has the version that this program needs, or a
// newer one, because instances of the old version continue during a rolling update. Otherwise the error matches
// lock.ErrDown and its text names the fix.
func (m *Migrator) Check(ctx context.Context) error {
	const doing = "check schema"
	var version sql.NullInt64
	err := m.db.QueryRowContext(ctx, "SELECT MAX(version_id) FROM "+goose.DefaultTablename).Scan(&version)
	switch {
	case err != nil:
		return MySQLFault(ctx, doing, err)
	case version.Int64 < m.version:
		old := driver.NewDown("mysql", "wrong-schema", "has", version.Int64, "wants", m.version)
		return fmt.Errorf("%s: %w", doing, old)
	}
	return nil
}

// exclusively calls do while no other instance migrates this database.
//
// It locks with GET_LOCK, which the server releases when the connection ends, so a crash leaves no lock behind.
// goose's own locker for MySQL is a table with a lease of 30 s that is polled every 5 s, and goose creates its table
// of versions before it locks.
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

	// Named locks belong to the whole server, so the name must contain the database. It contains a digest of it,
	// because a name has at most 64 characters.
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
			return fmt.Errorf("%s: %w", doing, err) // an error of goose about the files
		}
		return MySQLFault(ctx, doing, err)
	}
	return nil
}
