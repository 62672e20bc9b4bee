package servertest

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

	"example.com/stock/lock/locktest/server"
)

// Shared holds servers that the tests of a package share. Each starts when a test first asks for it, so tests without
// servers start none. The zero value is ready. In the test package:
//
//	var servers servertest.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Around(m)) }
//
//	func TestIt(t *testing.T) { dsn := servers.MariaDB(t) ... }
type Shared struct {
	mu        sync.Mutex
	stack     *server.Stack
	databases int

	filling sync.Mutex // held while the model is filled
	model   string     // the statements that copy it; empty: not filled yet
}

// A runner takes the place of testing.M.
type runner func() int

func (r runner) Run() int { return r() }

// atOnce is the number of parallel tests, unless -parallel is given. Tests with servers mostly wait for replies, leases
// and time-outs, so the default of one for each core leaves the cores idle.
const atOnce = "8"

// Around wraps m: Run runs the tests, up to 8 parallel ones at once, stops the servers and returns the exit code. Pass
// it to goleak.VerifyTestMain. Examples need the given servers: an example cannot skip itself, so Around leaves all of
// them out if one is missing.
func (s *Shared) Around(m interface{ Run() int }, examples ...server.Kind) interface{ Run() int } {
	return runner(func() int {
		if err := errors.Join(manyAtOnce(), s.readyExamples(examples)); err != nil {
			fmt.Fprintln(os.Stderr, "servertest:", err)
			return 1
		}
		code := m.Run()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stack == nil {
			return code
		}
		if err := s.stack.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "servertest:", err)
			code = max(code, 1)
		}
		return code
	})
}

// noExamples is the value of -test.skip that leaves out all examples.
const noExamples = "^Example"

// readyExamples starts the servers that examples need, unless the examples are left out: a contender of locktest would
// start a server that nobody asks.
func (s *Shared) readyExamples(kinds []server.Kind) error {
	if flag.Lookup("test.skip").Value.String() == noExamples {
		return nil
	}
	for _, kind := range kinds {
		started, err := s.started(kind)
		if err != nil {
			return err
		}
		if reason, missing := started.Missing()[string(kind)]; missing && os.Getenv("REQUIRE_BACKENDS") != "1" {
			fmt.Fprintln(os.Stderr, "servertest: without examples:", reason)
			return flag.Set("test.skip", noExamples)
		}
	}
	return nil
}

// URL returns the address of a shared server for an example. Around must have been told that examples need it.
func (s *Shared) URL(kind server.Kind) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stack.Server(string(kind)).URL
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
func (s *Shared) Redis(t testing.TB) *server.Server {
	t.Helper()
	return s.server(t, server.Redis)
}

// ZooKeeper returns the host:port of the shared ZooKeeper. Tests see each other's nodes.
func (s *Shared) ZooKeeper(t testing.TB) string {
	t.Helper()
	return s.server(t, server.ZooKeeper).URL
}

// MariaDB returns the DSN of an empty database on the shared MariaDB, for this test alone. It is not dropped, because
// that would wait for any transaction that a failed test left open, and the server ends with the tests.
func (s *Shared) MariaDB(t testing.TB) string {
	t.Helper()
	return s.database(t, "")
}

// FilledMariaDB returns the DSN of a database on the shared MariaDB, for this test alone, with the tables (no views, no
// triggers) and rows that fill creates in an empty one. Only the first call runs fill, which all calls must share; each
// gets a copy. Running all steps of a schema costs more than many tests.
func (s *Shared) FilledMariaDB(t testing.TB, fill func(t testing.TB, dsn string)) string {
	t.Helper()
	return s.database(t, s.copying(t, fill))
}

// copying returns the statements that copy the model into a database. The first test fills the model.
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
	mariadb := s.server(t, server.MySQL)
	s.mu.Lock()
	s.databases++
	name := fmt.Sprintf("stock_%d", s.databases)
	s.mu.Unlock()
	create(t, mariadb.URL, name, statements)
	return "root@tcp(" + mariadb.Addr + ")/" + name
}

// server returns a backend, and starts it unless it runs or is known to be missing.
func (s *Shared) server(t testing.TB, kind server.Kind) *server.Server {
	t.Helper()
	started, err := s.started(kind)
	if err != nil {
		t.Fatal(err)
	}
	return real(t, started, kind)
}

// started returns the servers, of which one is of that kind, unless it is missing.
func (s *Shared) started(kind server.Kind) (*server.Stack, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx := context.Background() // the server outlives this test
	if s.stack == nil {
		made, err := server.Start(ctx, server.Options{})
		if err != nil {
			return nil, err
		}
		s.stack = made
	}
	if s.stack.Server(string(kind)) == nil && s.stack.Missing()[string(kind)] == "" {
		var missing *server.MissingError
		if _, err := s.stack.Add(ctx, kind); err != nil && !errors.As(err, &missing) {
			return nil, err
		}
	}
	return s.stack, nil
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

// statements returns the statements that create the tables and the rows of dsn in an empty database on the same server.
func statements(t testing.TB, dsn string) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables, err := db.Query("SHOW TABLES")
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var all strings.Builder
	all.WriteString("SET foreign_key_checks = 0;\n") // tables are sorted by name, not by dependency
	for tables.Next() {
		var name, create string
		if err := tables.Scan(&name); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow("SHOW CREATE TABLE "+name).Scan(&name, &create); err != nil {
			t.Fatalf("copy table %s: %v", name, err)
		}
		var rows bool
		if err := db.QueryRow("SELECT EXISTS (SELECT * FROM " + name + ")").Scan(&rows); err != nil {
			t.Fatalf("copy table %s: %v", name, err)
		}
		all.WriteString(create + ";\n")
		if rows {
			database := dsn[strings.LastIndexByte(dsn, '/')+1:]
			fmt.Fprintf(&all, "INSERT INTO %s SELECT * FROM %s.%[1]s;\n", name, database)
		}
	}
	if err := tables.Err(); err != nil {
		t.Fatal(err)
	}
	return all.String()
}
