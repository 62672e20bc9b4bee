package stacktest_test

import (
	"database/sql"
	"net"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
)

var servers stacktest.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Around(m)) }

func TestRedisHasAnAddress(t *testing.T) {
	t.Parallel()
	reachable(t, stacktest.Redis(t).Addr)
	reachable(t, servers.Redis(t).Addr)
}

func TestZooKeeperHasAnAddress(t *testing.T) {
	t.Parallel()
	reachable(t, stacktest.ZooKeeper(t))
	reachable(t, servers.ZooKeeper(t))
}

func TestMariaDBHasAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	empty(t, stacktest.MariaDB(t))
}

func TestTestsShareAMariaDBButNoDatabase(t *testing.T) {
	t.Parallel()
	one, two := servers.MariaDB(t), servers.MariaDB(t)
	empty(t, one)
	exec(t, one, "CREATE TABLE seen (id INT)")
	empty(t, two)
}

// A copy has the tables, with what holds between them, and the rows of the model, and is nobody else's. It is copied,
// not filled again.
func TestFilledDatabasesAreCopies(t *testing.T) {
	t.Parallel()
	filled := 0
	fill := func(t testing.TB, dsn string) {
		filled++
		db := open(t, dsn)
		for _, statement := range []string{
			"CREATE TABLE owners (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9) UNIQUE CHECK (name <> ''))",
			"CREATE TABLE bikes (owner INT NOT NULL, FOREIGN KEY (owner) REFERENCES owners (id))",
			"INSERT INTO owners (name) VALUES ('Ann'), ('Bob')",
		} {
			if _, err := db.Exec(statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	for range 3 {
		db := open(t, servers.FilledMariaDB(t, fill))
		for _, bad := range []string{
			"INSERT INTO bikes VALUES (9)",
			"INSERT INTO owners (name) VALUES ('')",
			"INSERT INTO owners (name) VALUES ('Ann')",
		} {
			if _, err := db.Exec(bad); err == nil {
				t.Errorf("%s: was done", bad)
			}
		}
		r, err := db.Exec("INSERT INTO owners (name) VALUES ('Cid')")
		if err != nil {
			t.Fatal(err)
		}
		if id, err := r.LastInsertId(); err != nil || id < 3 {
			t.Errorf("the next id is %d, %v", id, err)
		}
		var names string
		err = db.QueryRow("SELECT GROUP_CONCAT(name ORDER BY id) FROM owners").Scan(&names)
		if err != nil || names != "Ann,Bob,Cid" {
			t.Errorf("the rows are %s, %v", names, err)
		}
	}
	if filled != 1 {
		t.Errorf("filled %d times", filled)
	}
	empty(t, servers.MariaDB(t))
}

func reachable(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func empty(t *testing.T, dsn string) {
	t.Helper()
	db := open(t, dsn)
	var n int
	row := db.QueryRow("SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if err := row.Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("%s: %d tables, want an empty database", dsn, n)
	}
}

func exec(t *testing.T, dsn, statement string) {
	t.Helper()
	if _, err := open(t, dsn).Exec(statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
