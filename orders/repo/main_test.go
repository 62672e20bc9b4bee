package repo_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/orders/internal/mariadb"
	"example.com/stock/orders/repo"
)

var (
	store *repo.Store
	dsn   string
	rows  *sql.DB // for what the store does not show
)

func TestMain(m *testing.M) {
	if os.Getenv("SKIP_SERVERS") == "1" {
		fmt.Println("SKIP_SERVERS: nothing is tested here without MariaDB")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var server *mariadb.Server
	var err error
	if server, dsn, err = mariadb.Start(); err != nil {
		fmt.Println("start MariaDB (SKIP_SERVERS=1 does without):", err)
		return 1
	}
	defer server.Stop()
	if rows, err = sql.Open("mysql", server.Root()+"orders"); err != nil {
		fmt.Println(err)
		return 1
	}
	defer rows.Close()
	if store, err = repo.Open(dsn, repo.Options{Connections: 8, Events: true}); err == nil {
		_, err = store.Migrate(context.Background())
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer store.Close()
	return m.Run()
}

func exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := rows.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func newID() string { return uuid.NewString() }
