package mysqllock

import (
	"errors"
	"strings"
	"testing"

	"example.com/stock/lock"
)

// Schema makes the tables that the migrations make, and they are enough for every lock.
func TestSchema(t *testing.T) {
	t.Parallel()
	migrated, dsn := pool(t, database(t), 1), servers.MariaDB(t)
	db := pool(t, dsn, 1)
	for range 2 { // the second time they exist
		for _, statement := range Schema() {
			execSQL(t, db, statement)
		}
	}
	for _, table := range []string{"locks", "lock_rows", "lock_fences"} {
		var name, want, got string
		if err := migrated.QueryRow("SHOW CREATE TABLE "+table).Scan(&name, &want); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow("SHOW CREATE TABLE "+table).Scan(&name, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	for _, k := range all {
		release(t, acquire(t, k.open(t, dsn, 0), "k"))
	}
}

// An error about a missing table says what creates it, and not that the server is down. No lock is left.
func TestAMissingTable(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := servers.MariaDB(t)
		l := k.open(t, dsn, 0)
		_, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err == nil {
			t.Fatal("acquired without a table")
		}
		for _, part := range []string{"mysqllock.Schema", "stock migrate up", "lock"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%v does not name %s", err, part)
			}
		}
		if strings.Contains(err.Error(), "down") {
			t.Errorf("%v calls the server down", err)
		}
		var down *lock.DownError // what an instance tells its clients
		if !errors.As(err, &down) || down.Reason != "no-schema" {
			t.Errorf("%v has no reason for clients", err)
		}
		db := pool(t, dsn, 1)
		eventually(t, "no lock is left", func() bool {
			return transactions(t, db)+count(
				t, db, "SELECT IS_USED_LOCK(CONCAT('stock/', DATABASE(), '/k')) IS NOT NULL",
			) == 0
		})
	})
}
