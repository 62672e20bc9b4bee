package mysqllock

import (
	"testing"

	"example.com/stock/internal/mysqlerr"
)

// One of the notes with which this project began has a table of locks with a blank inside a name: docs/notes.md, 18.
func TestABlankInsideAName(t *testing.T) {
	t.Parallel()
	db := pool(t, database(t), 1)
	const syntax, unknownType = 1064, 4161 // MariaDB takes the rest of the name for a type
	_, err := db.ExecContext(t.Context(), `CREATE TABLE method_locks (id INT PRIMARY KEY,
		method_ name VARCHAR(64) NOT NULL, UNIQUE (method_name))`)
	if n := mysqlerr.Number(err); n != syntax && n != unknownType {
		t.Errorf("with a blank: %v, want error %d or %d", err, syntax, unknownType)
	}
	execSQL(t, db, `CREATE TABLE method_locks (id INT PRIMARY KEY,
		method_name VARCHAR(64) NOT NULL, UNIQUE (method_name))`)
}
