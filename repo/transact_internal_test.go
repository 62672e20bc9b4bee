package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"
	gormmysql "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"example.com/stock/lock"
	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/service"
)

// A scripted server answers statements with errors that a real one sends once in a year. It tells what it was sent,
// and on which connection.
type scripted struct {
	answer func(connection int, text string) error

	mu     sync.Mutex
	opened int
	said   []string
}

func (s *scripted) Connect(context.Context) (driver.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	return &scriptedConn{s, s.opened}, nil
}

func (s *scripted) Driver() driver.Driver { return nil }

type scriptedConn struct {
	server *scripted
	number int
}

func (c *scriptedConn) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	c.server.mu.Lock()
	c.server.said = append(c.server.said, text)
	c.server.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return driver.RowsAffected(1), c.server.answer(c.number, text)
}

func (c *scriptedConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c *scriptedConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c *scriptedConn) Close() error                        { return nil }

func (s *scripted) store(t *testing.T) *MySQL {
	t.Helper()
	pool := sql.OpenDB(s)
	t.Cleanup(func() { _ = pool.Close() })
	db, err := gorm.Open(gormmysql.New(gormmysql.Config{Conn: pool, SkipInitializeWithVersion: true}), &gorm.Config{
		DisableAutomaticPing: true, SkipDefaultTransaction: true, Logger: logger.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
	return NewMySQL(db)
}

func told(number uint16) error { return &mysql.MySQLError{Number: number, Message: "the test says so"} }

// What the failure of a packet that ends with COMMIT means depends on what failed, on who says so, and on whether the
// connection still works. Package mysqlerr knows what each number means.
func TestWhatAFailedCommitMeans(t *testing.T) {
	lost := errors.New("the connection broke")
	const alone, behind = "COMMIT", "INSERT; COMMIT"
	for name, row := range map[string]struct {
		packet           string
		answer, rollback error
		want             error
		times            int
	}{
		"no reply":                   {alone, lost, lost, service.ErrOutcomeUnknown, 1},
		"no reply to both":           {behind, lost, lost, service.ErrOutcomeUnknown, 1},
		"never left":                 {alone, lost, nil, lock.ErrDown, 1},
		"shutdown":                   {behind, told(mysqlerr.ServerShutdown), nil, service.ErrOutcomeUnknown, 1},
		"an error of statements":     {behind, told(mysqlerr.DiskFull), nil, lock.ErrFull, 1},
		"never said of a COMMIT":     {alone, told(mysqlerr.DiskFull), nil, service.ErrOutcomeUnknown, 1},
		"not committed":              {alone, told(mysqlerr.LockWaitTimeout), nil, lock.ErrHeld, 1},
		"read-only, and then broken": {alone, told(mysqlerr.OptionPrevents), lost, lock.ErrDown, 1},
		"deadlock":                   {behind, told(mysqlerr.Deadlock), nil, lock.ErrHeld, Attempts},
		"id taken":                   {behind, ofClass(mysqlerr.DupEntry, "23000"), nil, service.ErrSettled, 1},
		"too late":                   {behind, ofClass(mysqlerr.BadNull, "23000"), nil, ErrChanged, Attempts},
	} {
		t.Run(name, func(t *testing.T) {
			server := &scripted{answer: func(_ int, text string) error {
				return map[string]error{row.packet: row.answer, "ROLLBACK": row.rollback}[text]
			}}
			err := server.store(t).InTwoPackets(t.Context(), "test", func(*gorm.DB) (*Statement, error) {
				s := &Statement{}
				s.Add(strings.TrimSuffix(strings.TrimSuffix(row.packet, "COMMIT"), "; "))
				return s, nil
			})
			sent := strings.Count(strings.Join(server.said, "\n"), row.packet)
			if !errors.Is(err, row.want) || sent != row.times ||
				errors.Is(err, service.ErrOutcomeUnknown) != (row.want == service.ErrOutcomeUnknown) {
				t.Errorf("%v after %d times; want %v after %d", err, sent, row.want, row.times)
			}
		})
	}
}

func ofClass(number uint16, class string) error {
	e := &mysql.MySQLError{Number: number}
	copy(e.SQLState[:], class)
	return e
}

// A connection that may still be in our transaction is not used again. One that has rolled back is.
func TestWhichConnectionsAreDropped(t *testing.T) {
	refuses := func(*gorm.DB) error { return service.ErrConflict }
	for name, row := range map[string]struct {
		failing string
		do      func(*gorm.DB) error
		opened  int
	}{
		"a refusal":                {"", refuses, 1},
		"a refusal, then no reply": {"ROLLBACK", refuses, 2},
		"a panic":                  {"", func(*gorm.DB) error { panic("a bug") }, 2},
		"read-only":                {"", func(*gorm.DB) error { return told(mysqlerr.OptionPrevents) }, 2},
		"no transaction":           {"START TRANSACTION", refuses, 2},
	} {
		t.Run(name, func(t *testing.T) {
			server := &scripted{answer: func(connection int, text string) error {
				if connection == 1 && text == row.failing {
					return told(mysqlerr.DiskFull)
				}
				return nil
			}}
			s := server.store(t)
			func() {
				defer func() { _ = recover() }()
				if err := s.Transaction(t.Context(), "test", row.do); err == nil {
					t.Error("no error")
				}
			}()
			if err := s.Transaction(t.Context(), "test", func(*gorm.DB) error { return nil }); err != nil {
				t.Errorf("the next: %v", err)
			}
			if server.opened != row.opened {
				t.Errorf("%d connections were opened, want %d; %q", server.opened, row.opened, server.said)
			}
		})
	}
}

// One row of a probe may find room where a sale did not: after a refusal there are as many as need a page, until they
// have found room.
func TestAProbeAfterARefusal(t *testing.T) {
	rows := 0
	server := &scripted{answer: func(_ int, text string) error {
		rows = strings.Count(text, "INSERT INTO orders")
		if strings.HasSuffix(text, "COMMIT") {
			return told(mysqlerr.RecordFileFull)
		}
		return nil
	}}
	insert := func(s *Statement) { s.Add("INSERT INTO orders") }
	sales := server.store(t)
	probe := server.store(t).ProbeOf(sales)
	try := func(want int) {
		t.Helper()
		err := probe.WriteProbe(t.Context(), func(s *Statement, _ string) { insert(s) })
		if err != nil || rows != want {
			t.Errorf("%d rows, %v; want %d", rows, err, want)
		}
	}
	try(1)
	err := sales.InTwoPackets(t.Context(), "test", func(*gorm.DB) (*Statement, error) {
		s := &Statement{}
		insert(s)
		return s, nil
	})
	if !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	try(pageful)
	try(1)
}
