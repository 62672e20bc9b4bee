package mysqllock

import (
	"database/sql"
	"regexp"
	"strconv"
	"testing"
)

// activeTransaction is how the server lists one in SHOW ENGINE INNODB STATUS; further lines say what it does, and by which connection.
var activeTransaction = regexp.MustCompile(`(?m)^---TRANSACTION [^\n]*, ACTIVE(?:.*\n)(?:[^-\n].*\n)*?\S+ thread id (\d+),`)

// transactions is how many are open in the database of db, now. It does not ask information_schema.INNODB_TRX: that keeps what it has shown
// until nobody on the server has asked for 100 ms, so tests that poll it beside one another see the same for ever.
func transactions(t testing.TB, db *sql.DB) int {
	t.Helper()
	var kind, name, status string
	if err := db.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, match := range activeTransaction.FindAllStringSubmatch(status, -1) {
		id, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		open += count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND DB = DATABASE()", id)
	}
	return open
}

// What is opened is seen at once, however often one looks, and so is its end.
func TestTransactionsAreSeenAtOnce(t *testing.T) {
	dsn := database(t)
	db, look := pool(t, dsn, 4), pool(t, dsn, 1)
	for range 20 {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec("UPDATE locks SET who = 'me' WHERE name = 'none'"); err != nil {
			t.Fatal(err)
		}
		if n := transactions(t, look); n != 1 {
			t.Fatalf("%d transactions are seen, one is open", n)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if n := transactions(t, look); n != 0 {
			t.Fatalf("%d transactions are seen, none is open", n)
		}
	}
}
