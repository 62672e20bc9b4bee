package repotest

import (
	"sync"
	"testing"

	"gorm.io/gorm"

	"example.com/stock/repo"
)

var (
	sharedMu  sync.Mutex
	sharedDSN string
)

// SharedMySQL returns the DSN of a migrated database that tests share. Each test uses its own SKUs, see NewSKU.
func SharedMySQL(t testing.TB) string {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if sharedDSN == "" {
		sharedDSN = Database(t)
	}
	return sharedDSN
}

// OpenMySQL opens dsn. It does not touch the schema.
func OpenMySQL(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	db, err := repo.OpenMySQL(dsn, repo.Pool{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	})
	return db
}

// Migrated opens dsn and brings its schema up.
func Migrated(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	db := OpenMySQL(t, dsn)
	m, err := repo.NewMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// Database returns the DSN of a new database with the schema.
func Database(t testing.TB) string {
	t.Helper()
	return Servers.FilledMariaDB(t, func(t testing.TB, dsn string) { Migrated(t, dsn) })
}
