package mysqllock

import (
	"testing"

	"example.com/stock/internal/mysqlerr"
)

// One of the notes with which this project began has a table of locks with a blank inside a name: docs/notes.md, 18.
func TestABlankInsideAName(t *testing.T) {
	db := pool(t, database(t), 1)
	const syntax = 1064
	_, err := db.ExecContext(t.Context(), `CREATE TABLE method_locks (id INT PRIMARY KEY, method_ name VARCHAR(64) NOT NULL,
		UNIQUE (method_name))`)
	if mysqlerr.Number(err) != syntax {
		t.Errorf("with a blank: %v, want error %d", err, syntax)
	}
	execSQL(t, db, `CREATE TABLE method_locks (id INT PRIMARY KEY, method_name VARCHAR(64) NOT NULL, UNIQUE (method_name))`)
}
