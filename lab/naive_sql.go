package lab

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
)

// The errors of MySQL and MariaDB that scenarios look for.
const (
	errDuplicate = 1062
	errLockWait  = 1205 // ends the statement, and leaves the transaction open
	errDeadlock  = 1213 // ends the transaction
	errNoWait    = 3572 // of MySQL; MariaDB answers NOWAIT with 1205
)

// errno is the number of a server's error; 0 if err is none.
func errno(err error) int {
	var from *mysql.MySQLError
	if errors.As(err, &from) {
		return int(from.Number)
	}
	return 0
}

// A session is one connection of code that people write, with its number on the server.
type session struct {
	*sql.Conn
	b   *Bench
	who string
	id  int64
}

// session opens one. It is closed at the end of the case.
func (b *Bench) session(db *sql.DB, who string) *session {
	conn, err := db.Conn(b.Ctx)
	b.Must(who+": connect", err)
	b.Defer(func() { _ = conn.Close() })
	s := &session{Conn: conn, b: b, who: who}
	b.Must("CONNECTION_ID", conn.QueryRowContext(b.Ctx, "SELECT CONNECTION_ID()").Scan(&s.id))
	return s
}

// do runs a statement that must succeed.
func (s *session) do(query string, args ...any) { s.b.Must(s.who+": "+query, s.try(query, args...)) }

// try runs a statement and returns what the server says, which is written into the timeline.
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
		s.b.Note(s.who, "%s: error %d", query, errno(err))
		return err
	}
	s.b.Note(s.who, "%s", query)
	return nil
}

// beside runs a statement that may have to wait, and goes on.
func (s *session) beside(query string, args ...any) <-chan error {
	done := make(chan error, 1)
	s.b.Go(func(ctx context.Context) { done <- s.exec(ctx, query, args...) })
	return done
}

// waiting returns once the session's statement waits for a row, as the server has it.
func (s *session) waiting(look *sql.DB) {
	s.b.Eventually(s.who+" waits for a row", func() bool {
		time.Sleep(trxIdle)
		var n int
		err := look.QueryRowContext(s.b.Ctx,
			"SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id = ?", s.id).Scan(&n)
		s.b.Must("innodb_trx", err)
		return n > 0
	})
	s.b.Note("mysql", "%s waits for a row", s.who)
}

// trxIdle is how long one must not have asked for information_schema.innodb_trx to be shown it as it is now: the server keeps what it has
// shown for 100 ms since it was last asked. Who asks more often sees the same for ever.
const trxIdle = 200 * time.Millisecond

// transaction asks for a number of the session's open transaction.
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
	s.b.Note("mysql", "%s = %d", query, n)
	return n
}

// another is a second pool on the same database.
func (b *Bench) another(db *sql.DB) *sql.DB {
	var name string
	b.Must("DATABASE", db.QueryRowContext(b.Ctx, "SELECT DATABASE()").Scan(&name))
	return b.open("root@tcp(" + b.Server(NeedMySQL).Addr + ")/" + name)
}
