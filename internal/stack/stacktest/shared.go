package stacktest

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql" // for sql.Open

	"example.com/stock/internal/stack"
)

// Shared holds servers that the tests of a package share. Each is started when a test first asks for it, so a run of
// tests without servers starts none. The zero value is ready. In the test package:
//
//	var servers stacktest.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Around(m)) }
//
//	func TestIt(t *testing.T) { dsn := servers.MariaDB(t) ... }
type Shared struct {
	mu        sync.Mutex
	stack     *stack.Stack
	databases int

	filling sync.Mutex // held while the model is filled
	model   string     // the statements that make a copy of it; empty: it is not filled yet
}

// A runner takes the place of testing.M.
type runner func() int

func (r runner) Run() int { return r() }

// atOnce is how many parallel tests run at once, unless -parallel says otherwise. Tests with servers wait for replies,
// leases and time-outs more than they compute, so the default of one for each core leaves the cores idle.
const atOnce = "8"

// Around wraps m: Run runs the tests, up to 8 of those that are parallel at once, stops the servers and returns the
// exit code. Give it to goleak.VerifyTestMain, which then finds nothing left.
func (s *Shared) Around(m interface{ Run() int }) interface{ Run() int } {
	return runner(func() int {
		if err := manyAtOnce(); err != nil {
			fmt.Fprintln(os.Stderr, "stacktest:", err)
			return 1
		}
		code := m.Run()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stack == nil {
			return code
		}
		if err := s.stack.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stacktest:", err)
			code = max(code, 1)
		}
		return code
	})
}

func manyAtOnce() error {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if told {
		return nil
	}
	return flag.Set("test.parallel", atOnce)
}

// Redis returns the shared Redis. Tests see each other's keys. A test that pauses, kills or flushes it must start its
// own.
func (s *Shared) Redis(t testing.TB) *stack.Server {
	t.Helper()
	return s.server(t, stack.Redis)
}

// ZooKeeper returns the host:port of the shared ZooKeeper. Tests see each other's nodes.
func (s *Shared) ZooKeeper(t testing.TB) string {
	t.Helper()
	return s.server(t, stack.ZooKeeper).URL
}

// MariaDB returns the DSN of an empty database on the shared MariaDB. The database is this test's own. It is not
// dropped: that would wait for any transaction that a failed test has left open, and the server does not outlive the
// tests.
func (s *Shared) MariaDB(t testing.TB) string {
	t.Helper()
	return s.database(t, "")
}

// FilledMariaDB returns the DSN of a database on the shared MariaDB that has the tables (no views, no triggers) and the
// rows that fill makes in an empty one. The database is this test's own. Only the first call fills one, of which all
// get a copy: every call must have the same fill. Running all steps of a schema anew costs more than many a test.
func (s *Shared) FilledMariaDB(t testing.TB, fill func(t testing.TB, dsn string)) string {
	t.Helper()
	return s.database(t, s.copying(t, fill))
}

// copying returns the statements that fill a database. The test that is first fills the model.
func (s *Shared) copying(t testing.TB, fill func(testing.TB, string)) string {
	t.Helper()
	s.filling.Lock()
	defer s.filling.Unlock()
	if s.model == "" {
		dsn := s.MariaDB(t)
		fill(t, dsn)
		s.model = statements(t, dsn)
	}
	return s.model
}

// database creates the next database, and runs statements in it.
func (s *Shared) database(t testing.TB, statements string) string {
	t.Helper()
	server := s.server(t, stack.MySQL)
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("stock_%d", s.databases)
	s.mu.Unlock()
	create(t, server.URL, name, statements)
	return "root@tcp(" + server.Addr + ")/" + name
}

// server returns a backend. It starts it first, unless it runs already or is known to be missing.
func (s *Shared) server(t testing.TB, kind stack.Kind) *stack.Server {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background() // the server outlives this test
	if s.stack == nil {
		made, err := stack.Start(ctx, stack.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.stack = made
	}
	if s.stack.Server(string(kind)) == nil && s.stack.Missing()[string(kind)] == "" {
		var missing *stack.MissingError
		if _, err := s.stack.Add(ctx, kind); err != nil && !errors.As(err, &missing) {
			t.Fatal(err)
		}
	}
	return real(t, s.stack, kind)
}

// create makes a database and runs statements in it, in one round trip.
func create(t testing.TB, dsn, name, statements string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn+"?multiStatements=true")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE " + name + "; USE " + name + "; " + statements); err != nil {
		t.Fatalf("create database %s: %v", name, err)
	}
}

// statements returns what makes the tables and the rows of dsn in an empty database on the same server.
func statements(t testing.TB, dsn string) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var all strings.Builder
	all.WriteString("SET foreign_key_checks = 0;\n") // tables are in the order of their names
	for _, table := range tables(t, db) {
		var name, create string
		if err := db.QueryRow("SHOW CREATE TABLE "+table).Scan(&name, &create); err != nil {
			t.Fatalf("copy table %s: %v", table, err)
		}
		all.WriteString(create + ";\n")
		var rows bool
		if err := db.QueryRow("SELECT EXISTS (SELECT * FROM " + table + ")").Scan(&rows); err != nil {
			t.Fatalf("copy table %s: %v", table, err)
		}
		if rows {
			database := dsn[strings.LastIndexByte(dsn, '/')+1:]
			fmt.Fprintf(&all, "INSERT INTO %s SELECT * FROM %s.%[1]s;\n", table, database)
		}
	}
	return all.String()
}

func tables(t testing.TB, db *sql.DB) (names []string) {
	t.Helper()
	rows, err := db.Query("SHOW TABLES")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
