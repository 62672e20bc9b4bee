package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// A naiveShop is a stock as it is often written: a table in a database of its own.
type naiveShop struct {
	b       *lab.Testbed
	db      *sql.DB
	server  string // its lane in the timeline
	initial int64
}

// stockTable is the stock of most shops: see newTables.
const stockTable = "stock (sku VARCHAR(64) PRIMARY KEY, quantity INT NOT NULL)"

// newTables returns a new database with tables. Each is a name with its columns in brackets. The timeline does not show
// how they were made.
func newTables(b *lab.Testbed, tables ...string) *sql.DB {
	db := b.DB(lab.NeedMySQL)
	for _, table := range tables {
		_, err := db.ExecContext(b.Ctx, "CREATE TABLE "+table)
		b.Must("CREATE TABLE "+table, err)
	}
	return db
}

// ordersTable has what was sold, to whom, and what the sale had read.
const ordersTable = "orders (id INT AUTO_INCREMENT PRIMARY KEY, who VARCHAR(64), seen INT NOT NULL)"

// newNaiveShop makes a shop with one SKU, "sku", with units in stock.
func newNaiveShop(b *lab.Testbed, units int) *naiveShop {
	db := newTables(b, stockTable, ordersTable)
	_, err := db.ExecContext(b.Ctx, "INSERT INTO stock VALUES ('sku', ?)", units)
	b.Must("put units in stock", err)
	return &naiveShop{b, db, "mysql", int64(units)}
}

// A naiveSale is a read and a write in a session, step by step.
type naiveSale struct {
	*session
	sku  string // as the statements spell it; "sku" unless set
	seen int64
}

// begin opens a transaction. The server's default level, for "", is REPEATABLE READ.
func (s *naiveShop) begin(who, level string) *naiveSale {
	sale := &naiveSale{session: newSession(s.b, s.db, who), sku: "sku"}
	if level != "" {
		sale.do("SET TRANSACTION ISOLATION LEVEL " + level)
	}
	sale.do("BEGIN")
	return sale
}

// tryRead runs a SELECT with locking at its end, such as "FOR UPDATE", and returns the server's error.
func (s *naiveSale) tryRead(ctx context.Context, locking string) error {
	query := "SELECT quantity FROM stock WHERE sku = '" + s.sku + "' " + locking
	if err := s.QueryRowContext(ctx, query).Scan(&s.seen); err != nil {
		s.b.Note(s.who, "statement-error", "statement", query, "error", errno(err))
		return err
	}
	s.b.EventSaying(readOf(s.who, s.on, int(s.seen)), fmt.Sprintf("%s = %d", query, s.seen))
	return nil
}

// read is tryRead of a row that nobody else has.
func (s *naiveSale) read(locking string) { s.b.Must(s.who+": read", s.tryRead(s.b.Ctx, locking)) }

// reading is tryRead in a goroutine, because it may wait.
func (s *naiveSale) reading(locking string) <-chan error {
	done := make(chan error, 1)
	s.b.Go(func(ctx context.Context) { done <- s.tryRead(ctx, locking) })
	return done
}

// write sets the stock to one less than was read and inserts an order, unless 0 was read.
func (s *naiveSale) write() {
	if s.seen < 1 {
		s.b.Note(s.who, "sold-out")
		return
	}
	_, err := s.ExecContext(s.b.Ctx, "UPDATE stock SET quantity = ? WHERE sku = ?", s.seen-1, s.sku)
	s.b.Must(s.who+": UPDATE", err)
	_, err = s.ExecContext(s.b.Ctx, "INSERT INTO orders (who, seen) VALUES (?, ?)", s.who, s.seen)
	s.b.Must(s.who+": INSERT", err)
	e := writeOf(s.who, s.on, int(s.seen-1))
	s.b.EventSaying(e, fmt.Sprintf("UPDATE stock SET quantity = %d", s.seen-1))
}

func (s *naiveSale) commit() { s.do("COMMIT") }

// verdict compares the orders with the stock that is left.
func (s *naiveShop) verdict() lab.Outcome {
	sold, left := books(s.b, s.server, s.db, s.initial)
	same := s.b.Int(s.server, s.db, "SELECT COUNT(*) FROM orders a JOIN orders b ON a.id < b.id AND a.seen = b.seen")
	if same > 0 {
		s.b.Evidence(lab.Pair, same, "saw-the-same", "pairs", same)
	}
	if sold != s.initial-left {
		return lab.Oversells
	}
	return lab.Safe
}

// books records how many orders there are, and what is left of the stock.
func books(b *lab.Testbed, lane string, db *sql.DB, initial int64) (sold, left int64) {
	left = b.Int(lane, db, "SELECT quantity FROM stock WHERE sku = 'sku'")
	sold = b.Int(lane, db, "SELECT COUNT(*) FROM orders")
	b.Evidence(lab.Balance, map[string]int64{"initial": initial, "sold": sold, "left": left}, "balance", "initial",
		initial, "sold", sold, "left", left)
	return sold, left
}

// The errors of MySQL and MariaDB that scenarios look for.
const (
	errDuplicate = 1062
	errLockWait  = 1205 // ends the statement, and leaves the transaction open
	errDeadlock  = 1213 // ends the transaction
	errNoWait    = 3572
)

// errno returns the number of a server's error, or 0 if err is not from a server.
func errno(err error) int {
	var from *mysql.MySQLError
	if errors.As(err, &from) {
		return int(from.Number)
	}
	return 0
}

// lockIsHeld reports whether a statement with NOWAIT was refused because another has the lock. MariaDB answers as if
// the statement had waited.
func lockIsHeld(err error) bool { return errno(err) == errNoWait || errno(err) == errLockWait }

// oneAborted requires that one of two statements, and only one, was ended with 1213, and returns that number.
func oneAborted(b *lab.Testbed, one, other error) int {
	aborted := max(errno(one), errno(other))
	b.Require(aborted == errDeadlock && (one == nil) != (other == nil),
		"one of the two, and only one, is ended with 1213")
	return aborted
}

// A session is one connection of the lab's own code, with its number on the server.
type session struct {
	*sql.Conn
	b   *lab.Testbed
	who string
	id  int64
	on  string // the server, for the timeline
}

// newSession opens a session. It is closed at the end of the case.
func newSession(b *lab.Testbed, db *sql.DB, who string) *session {
	conn, err := db.Conn(b.Ctx)
	b.Must(who+": connect", err)
	b.Defer(func() { _ = conn.Close() })
	s := &session{Conn: conn, b: b, who: who, on: "mysql"}
	b.Must("CONNECTION_ID", conn.QueryRowContext(b.Ctx, "SELECT CONNECTION_ID()").Scan(&s.id))
	return s
}

// do runs a statement that must succeed.
func (s *session) do(query string, args ...any) { s.b.Must(s.who+": "+query, s.try(query, args...)) }

// try runs a statement, records it in the timeline, and returns the server's error.
func (s *session) try(query string, args ...any) error {
	err := s.exec(s.b.Ctx, query, args...)
	if err != nil && errno(err) == 0 {
		s.b.Fatalf("%s: %s: %w", s.who, query, err)
	}
	return err
}

func (s *session) exec(ctx context.Context, query string, args ...any) error {
	_, err := s.ExecContext(ctx, query, args...)
	if err != nil {
		s.b.Note(s.who, "statement-error", "statement", query, "error", errno(err))
		return err
	}
	s.b.Statement(s.who, s.on, query)
	return nil
}

// count runs a query for one number in the session and records both.
func (s *session) count(query string, args ...any) (n int64) {
	s.b.Must(query, s.QueryRowContext(s.b.Ctx, query, args...).Scan(&n))
	s.b.Statement(s.who, s.on, fmt.Sprintf("%s = %d", query, n))
	return n
}

// rows runs a query in the session, records it, and returns how many rows it has found.
func (s *session) rows(query string) (n int) {
	found, err := s.QueryContext(s.b.Ctx, query)
	s.b.Must(query, err)
	for found.Next() {
		n++
	}
	s.b.Must(query, errors.Join(found.Err(), found.Close()))
	s.b.Note(s.who, "rows-found", "statement", query, "rows", n)
	return n
}

// changed runs a statement in the session, and returns how many rows it changed.
func (s *session) changed(query string, args ...any) int64 {
	s.do(query, args...)
	return s.count("SELECT ROW_COUNT()")
}

// inBackground runs a statement in a goroutine, because it may wait for a lock. The channel receives its error.
func (s *session) inBackground(query string, args ...any) <-chan error {
	done := make(chan error, 1)
	s.b.Go(func(ctx context.Context) { done <- s.exec(ctx, query, args...) })
	return done
}

// waiting waits until the server reports that the session's statement waits for a row.
func (s *session) waiting(look *sql.DB) {
	waitsForARow(s.b, look, s.who, "trx_mysql_thread_id = ?", s.id)
}

// waitsForARow waits until the server reports that a transaction waits for a row. which selects the transaction.
func waitsForARow(b *lab.Testbed, look *sql.DB, who, which string, arg any) {
	b.Eventually(who+" waits for a row", func() bool {
		time.Sleep(trxIdle)
		var n int
		err := look.QueryRowContext(b.Ctx, "SELECT COUNT(*) FROM information_schema.innodb_trx"+
			" WHERE trx_state = 'LOCK WAIT' AND "+which, arg).Scan(&n)
		b.Must("innodb_trx", err)
		return n > 0
	})
	b.Note("mysql", "waits-for-a-row", "who", who)
}

// commits matches a message with COMMIT, alone or after other statements. \x03 is the protocol's byte before a
// statement; without it the setting autocommit would match.
func commits(m []byte) bool { return wire.Contains("\x03COMMIT")(m) || wire.Contains("; COMMIT")(m) }

// trxIdle is the pause before a read of information_schema.innodb_trx. The server caches the table until 100 ms after
// the last read, so a client that reads more often gets the same rows for ever.
const trxIdle = 200 * time.Millisecond

// transaction returns a number from the server's row about the session's open transaction.
func (s *session) transaction(look *sql.DB, column string) (n int64) {
	query := "SELECT " + column + " FROM information_schema.innodb_trx WHERE trx_mysql_thread_id = ?"
	s.b.Eventually("the server shows the transaction of "+s.who, func() bool {
		time.Sleep(trxIdle)
		err := look.QueryRowContext(s.b.Ctx, query, s.id).Scan(&n)
		if errors.Is(err, sql.ErrNoRows) {
			return false
		}
		s.b.Must(query, err)
		return true
	})
	s.b.Statement("mysql", "", fmt.Sprintf("%s = %d", query, n))
	return n
}

// secondPool opens another pool on the same database. parameters are the driver's: "?name=value", or "".
func secondPool(b *lab.Testbed, db *sql.DB, parameters string) *sql.DB {
	return b.OpenDB(b.Server(lab.NeedMySQL).Addr, databaseOf(b, db)+parameters)
}

// behindProxy opens a pool on the same database through a new proxy.
func behindProxy(b *lab.Testbed, db *sql.DB) (*wire.Proxy, *sql.DB) {
	p := b.ProxyTo(b.Server(lab.NeedMySQL).Addr, wire.MySQL())
	return p, b.OpenDB(p.Addr(), databaseOf(b, db)+"?interpolateParams=true")
}

func databaseOf(b *lab.Testbed, db *sql.DB) (name string) {
	b.Must("DATABASE", db.QueryRowContext(b.Ctx, "SELECT DATABASE()").Scan(&name))
	return name
}
