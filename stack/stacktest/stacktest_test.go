package stacktest_test

import (
	"database/sql"
	"net"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/stack/stacktest"
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

func open(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
