package engine

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/internal/mysqlconn"
)

// markTable has one row, the name of the test. It shows that the addresses lead to one schema, and that the schema is
// the test's.
const markTable = "stock_engine"

// replicateBound is how long a schema may take to appear at the other addresses.
const replicateBound = 30 * time.Second

// A schema is the schema of a test on MySQL.
type schema struct {
	run     string // name of the test
	dsns    []string
	created bool // by the test: it is dropped whole
	marked  bool
	configs []*mysql.Config
}

// openSchema makes the schema that the addresses name, or a new one if they name none. An existing one must be empty.
// On error nothing of it is left.
func openSchema(ctx context.Context, dsns []string, run string) (*schema, error) {
	s := &schema{run: run}
	name := ""
	for i, dsn := range dsns {
		c, err := mysqlconn.Parse(dsn)
		switch {
		case err != nil:
			return nil, failure("mysql.dsn", "n", i+1, "why", err)
		case c.DBName != "" && name != "" && c.DBName != name:
			return nil, failure("mysql.two-schemas", "one", name, "two", c.DBName)
		case c.DBName != "":
			name = c.DBName
		}
		if c.Timeout == 0 {
			c.Timeout = dialBound
		}
		s.configs = append(s.configs, c)
	}
	if name == "" {
		name = run
	}
	if err := s.create(ctx, name); err != nil {
		return nil, errors.Join(err, s.remove(context.WithoutCancel(ctx)))
	}
	for _, c := range s.configs {
		s.dsns = append(s.dsns, c.FormatDSN())
	}
	return s, nil
}

// create creates the schema if it does not exist, marks it, and waits until the mark is seen through every address.
func (s *schema) create(ctx context.Context, name string) error {
	err := s.at(ctx, 0, "", func(db *sql.Conn) error {
		var exists, tables int
		err := db.QueryRowContext(ctx, "SELECT"+
			" (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ?),"+
			" (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?)", name, name).
			Scan(&exists, &tables)
		switch {
		case err != nil:
			return err
		case tables > 0:
			return failure("mysql.not-empty", "name", name, "n", tables)
		case exists > 0:
			return nil
		}
		if _, err := db.ExecContext(ctx, "CREATE DATABASE "+quoted(name)); err != nil {
			return failure("mysql.no-create", "name", name, "why", err)
		}
		s.created = true
		return nil
	})
	for _, c := range s.configs {
		c.DBName = name
	}
	if err != nil {
		return err
	}
	if err := s.at(ctx, 0, name, s.mark); err != nil {
		return err
	}
	for n := 1; n < len(s.configs); n++ {
		if err := s.sees(ctx, n, name); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) mark(db *sql.Conn) error {
	ctx := context.Background() // the statements take milliseconds, and a table without its row would stay
	_, err := db.ExecContext(ctx, "CREATE TABLE "+markTable+" (run VARCHAR(64) NOT NULL PRIMARY KEY)")
	if err != nil {
		return failure("mysql.no-table", "why", err)
	}
	s.marked = true
	_, err = db.ExecContext(ctx, "INSERT INTO "+markTable+" VALUES (?)", s.run)
	return err
}

// sees waits until the mark is seen through address n.
func (s *schema) sees(ctx context.Context, n int, name string) error {
	ctx, cancel := context.WithTimeout(ctx, replicateBound)
	defer cancel()
	for {
		err := s.at(ctx, n, name, s.marksHere)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return failure("mysql.not-one", "n", n+1, "name", name, "limit", replicateBound, "why", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// marksHere returns nil if the schema has the mark of this test.
func (s *schema) marksHere(db *sql.Conn) error {
	var run string
	if err := db.QueryRowContext(context.Background(), "SELECT run FROM "+markTable).Scan(&run); err != nil {
		return err
	}
	if run != s.run {
		return failure("mysql.anothers", "run", run)
	}
	return nil
}

// at calls do with a connection to address n.
func (s *schema) at(ctx context.Context, n int, name string, do func(*sql.Conn) error) error {
	c := s.configs[n].Clone()
	c.DBName = name
	connector, err := mysqlconn.NewConnector(c)
	if err != nil {
		return failure("mysql.dsn", "n", n+1, "why", err)
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return failure("mysql.not-reached", "addr", c.Addr, "why", err)
	}
	defer conn.Close()
	return do(conn)
}

// remove drops what the test has made, through the first address that works. It may be called more than once.
func (s *schema) remove(ctx context.Context) error {
	if !s.created && !s.marked {
		return nil
	}
	var failed []error
	for n := range s.configs {
		err := s.at(ctx, n, "", func(db *sql.Conn) error { return s.drop(ctx, db, s.configs[n].DBName) })
		if err == nil {
			s.created, s.marked = false, false
			return nil
		}
		failed = append(failed, err)
	}
	return failure("mysql.left", "name", s.configs[0].DBName, "why", errors.Join(failed...))
}

// drop drops the schema, or all its tables if it was there before.
func (s *schema) drop(ctx context.Context, db *sql.Conn, name string) error {
	if s.created {
		_, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+quoted(name))
		return err
	}
	tables, err := tablesOf(ctx, db, name)
	if err != nil || !slices.Contains(tables, markTable) {
		return err
	}
	return dropTables(ctx, db, name, tables)
}

// empty drops all tables but the mark: the demonstration and the order service have tables of the same names.
func (s *schema) empty(ctx context.Context) error {
	return s.at(ctx, 0, "", func(db *sql.Conn) error {
		name := s.configs[0].DBName
		tables, err := tablesOf(ctx, db, name)
		if err != nil {
			return err
		}
		tables = slices.DeleteFunc(tables, func(table string) bool { return table == markTable })
		return dropTables(ctx, db, name, tables)
	})
}

func dropTables(ctx context.Context, db *sql.Conn, schema string, tables []string) error {
	if len(tables) == 0 {
		return nil
	}
	var names []string
	for _, table := range tables {
		names = append(names, quoted(schema)+"."+quoted(table))
	}
	if _, err := db.ExecContext(ctx, "SET SESSION foreign_key_checks = 0"); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS "+strings.Join(names, ", "))
	return err
}

func tablesOf(ctx context.Context, db *sql.Conn, name string) (tables []string, err error) {
	rows, err := db.QueryContext(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ?", name)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var table string
		if err := rows.Scan(&table); err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	return tables, rows.Err()
}

func quoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }
