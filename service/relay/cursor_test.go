package relay_test

import (
	"database/sql"
	"fmt"
	"slices"
	"testing"
)

// The counterexample of docs/adr/README.md: why the relay has a cursor for each SKU, over numbers that are drawn under
// the lock of its row, and none over an AUTO_INCREMENT.
func TestACursorOverAnAutoIncrementSkips(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("mysql", servers.MariaDB(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.Exec("CREATE TABLE outbox (id BIGINT AUTO_INCREMENT PRIMARY KEY, event VARCHAR(9))"); err != nil {
		t.Fatal(err)
	}
	cursor, delivered := 0, []string(nil)
	relay := func() {
		rows, err := db.Query("SELECT id, event FROM outbox WHERE id > ? ORDER BY id", cursor)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var event string
			if err := rows.Scan(&cursor, &event); err != nil {
				t.Fatal(err)
			}
			delivered = append(delivered, event)
		}
	}
	begin := func(event string) *sql.Tx {
		tx, err := db.Begin()
		if err == nil {
			_, err = tx.Exec("INSERT INTO outbox (event) VALUES (?)", event)
		}
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	a, b := begin("A"), begin("B")
	for _, tx := range []*sql.Tx{b, a} {
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		relay()
	}
	if !slices.Equal(delivered, []string{"B"}) {
		t.Errorf("delivered %v: A was expected to be skipped", fmt.Sprint(delivered))
	}
}
