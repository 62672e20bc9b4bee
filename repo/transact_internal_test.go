package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
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
	closed []int
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

func (c *scriptedConn) Close() error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.closed = append(c.server.closed, c.number)
	return nil
}

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

// What a COMMIT that failed means depends on who said so, and on whether the connection still works.
func TestWhatAFailedCommitMeans(t *testing.T) {
	lost := errors.New("the connection broke")
	for name, row := range map[string]struct {
		commit, rollback error
		unknown          bool
	}{
		"shutdown":                   {told(mysqlerr.ServerShutdown), nil, true},
		"interrupted":                {told(mysqlerr.Interrupted), nil, true},
		"killed":                     {told(mysqlerr.Killed), nil, true},
		"statement time":             {told(mysqlerr.StatementTime), nil, true},
		"disk full":                  {told(mysqlerr.DiskFull), nil, true}, // that is never said of a COMMIT
		"table full":                 {told(mysqlerr.RecordFileFull), nil, true},
		"error in it":                {told(mysqlerr.ErrorInCommit), nil, true},
		"waited for a backup":        {told(mysqlerr.LockWaitTimeout), nil, false},
		"node without a cluster":     {told(mysqlerr.NodeNotReady), nil, false},
		"no reply":                   {lost, lost, true},
		"never left":                 {lost, nil, false},
		"deadlock of a cluster":      {told(mysqlerr.Deadlock), nil, false},
		"refused by a plugin":        {told(mysqlerr.RolledBack), nil, false},
		"read-only":                  {told(mysqlerr.ReadOnlyMode), nil, false},
		"read-only, and then broken": {told(mysqlerr.OptionPrevents), lost, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := &scripted{answer: func(_ int, text string) error {
				return map[string]error{"COMMIT": row.commit, "ROLLBACK": row.rollback}[text]
			}}
			err := server.store(t).Transaction(t.Context(), "test", func(*gorm.DB) error { return nil })
			if err == nil || errors.Is(err, service.ErrOutcomeUnknown) != row.unknown {
				t.Errorf("%v; want it unknown: %t", err, row.unknown)
			}
		})
	}
}

// What the failure of a packet with COMMIT at its end means: an error that only a statement can have is not COMMIT's.
func TestWhatAFailedPacketMeans(t *testing.T) {
	lost := errors.New("the connection broke")
	state := func(number uint16, class string) error {
		e := &mysql.MySQLError{Number: number}
		copy(e.SQLState[:], class)
		return e
	}
	for name, row := range map[string]struct {
		packet, rollback error
		want             error // nil: any, but not unknown
		times            int
	}{
		"id taken":      {state(mysqlerr.DupEntry, "23000"), nil, service.ErrSettled, 1},
		"too long":      {state(1406, "22001"), nil, nil, 1},
		"no such table": {state(mysqlerr.NoSuchTable, "42S02"), nil, lock.ErrDown, 1},
		"bad text":      {state(mysqlerr.BadValue, "HY000"), nil, nil, 1},
		"deadlock":      {state(mysqlerr.Deadlock, "40001"), nil, lock.ErrHeld, Attempts},
		"too late":      {state(mysqlerr.BadNull, "23000"), nil, ErrChanged, Attempts},
		"table full":    {state(mysqlerr.RecordFileFull, "HY000"), nil, lock.ErrFull, 1},
		"disk full":     {state(mysqlerr.DiskFull, "HY000"), nil, lock.ErrFull, 1},
		"waited":        {state(mysqlerr.LockWaitTimeout, "HY000"), nil, lock.ErrHeld, 1},
		"node alone":    {state(mysqlerr.NodeNotReady, "08S01"), nil, lock.ErrDown, 1},
		"out of memory": {state(mysqlerr.OutOfResources, "HY000"), nil, service.ErrOutcomeUnknown, 1},
		"interrupted":   {state(mysqlerr.Interrupted, "70100"), nil, service.ErrOutcomeUnknown, 1},
		"shutdown":      {state(mysqlerr.ServerShutdown, "08S01"), nil, service.ErrOutcomeUnknown, 1},
		"no reply":      {lost, lost, service.ErrOutcomeUnknown, 1},
		"never left":    {lost, nil, lock.ErrDown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			server := &scripted{answer: func(_ int, text string) error {
				switch text {
				case "INSERT; COMMIT":
					sent++
					return row.packet
				case "ROLLBACK":
					return row.rollback
				}
				return nil
			}}
			err := server.store(t).InTwoPackets(t.Context(), "test", func(*gorm.DB) (*Statement, error) {
				s := &Statement{}
				s.Add("INSERT")
				return s, nil
			})
			if err == nil || row.want != nil && !errors.Is(err, row.want) || sent != row.times ||
				errors.Is(err, service.ErrOutcomeUnknown) != (row.want == service.ErrOutcomeUnknown) {
				t.Errorf("%v after %d times; want %v after %d", err, sent, row.want, row.times)
			}
		})
	}
}

// A connection whose ROLLBACK failed may still be in our transaction: nobody gets it any more.
func TestAConnectionThatCannotRollBackIsDropped(t *testing.T) {
	refusal := errors.New("refused")
	for name, row := range map[string]struct {
		failing string
		do      func(*gorm.DB) error
	}{
		"after a refusal": {"ROLLBACK", func(*gorm.DB) error { return refusal }},
		"after a panic":   {"", func(*gorm.DB) error { panic(refusal) }},
		"no transaction":  {"START TRANSACTION", func(*gorm.DB) error { return refusal }},
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
			if !slices.Contains(server.closed, 1) || server.opened != 2 {
				t.Errorf("closed %v of %d, want the first dropped", server.closed, server.opened)
			}
		})
	}
}

// A connection that rolled back is used again.
func TestAConnectionThatRolledBackIsKept(t *testing.T) {
	server := &scripted{answer: func(int, string) error { return nil }}
	s := server.store(t)
	_ = s.Transaction(t.Context(), "test", func(*gorm.DB) error { return service.ErrConflict })
	_ = s.Transaction(t.Context(), "test", func(*gorm.DB) error { return nil })
	want := []string{"START TRANSACTION", "ROLLBACK", "START TRANSACTION", "COMMIT"}
	if server.opened != 1 || !slices.Equal(server.said, want) {
		t.Errorf("%d connections, %q; want one, and %q", server.opened, server.said, want)
	}
}

// When ctx has ended nothing is committed, and the wait of the caller is not the server's fault.
func TestNoCommitAfterTheEnd(t *testing.T) {
	server := &scripted{answer: func(int, string) error { return nil }}
	ctx, cancel := context.WithCancel(t.Context())
	err := server.store(t).Transaction(ctx, "test", func(*gorm.DB) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrDown) ||
		errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("%v, want the end of ctx alone", err)
	}
	if want := []string{"START TRANSACTION", "ROLLBACK"}; !slices.Equal(server.said, want) {
		t.Errorf("%q, want %q", server.said, want)
	}
}

// What InnoDB has undone is done again, a few times; so is what found a dead connection. A refusal is not.
func TestWhatIsDoneAgain(t *testing.T) {
	for name, row := range map[string]struct {
		begin, do error
		tries     int
	}{
		"deadlock":         {nil, told(mysqlerr.Deadlock), Attempts},
		"changed":          {nil, ErrChanged, Attempts},
		"stale connection": {mysql.ErrInvalidConn, nil, Attempts},
		"refused":          {nil, service.ErrStaleFence, 1},
		"lock wait":        {nil, told(mysqlerr.LockWaitTimeout), 1},
		"begin fails":      {told(mysqlerr.TooManyConns), nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := &scripted{answer: func(_ int, text string) error {
				if text == "START TRANSACTION" {
					return row.begin
				}
				return nil
			}}
			err := server.store(t).Transaction(t.Context(), "test", func(*gorm.DB) error { return row.do })
			begun := 0
			for _, text := range server.said {
				if text == "START TRANSACTION" {
					begun++
				}
			}
			if err == nil || begun != row.tries {
				t.Errorf("%d tries, %v; want %d", begun, err, row.tries)
			}
		})
	}
}

// One row of a probe may find room where a sale did not: after a refusal there are as many as need a page, until they
// have found room.
func TestAProbeAfterARefusal(t *testing.T) {
	full, rows := true, 0
	server := &scripted{answer: func(_ int, text string) error {
		rows = strings.Count(text, "INSERT INTO orders")
		if full && strings.HasSuffix(text, "COMMIT") {
			e := &mysql.MySQLError{Number: mysqlerr.RecordFileFull}
			copy(e.SQLState[:], "HY000")
			return e
		}
		return nil
	}}
	sales := server.store(t)
	probe := server.store(t).ProbeOf(sales)
	try := func(want int) {
		t.Helper()
		err := probe.WriteProbe(t.Context(), func(s *Statement, _ string) {
			s.Add("INSERT INTO orders")
		})
		if err != nil || rows != want {
			t.Errorf("%d rows, %v; want %d", rows, err, want)
		}
	}
	try(1)
	err := sales.InTwoPackets(t.Context(), "test", func(*gorm.DB) (*Statement, error) {
		s := &Statement{}
		s.Add("INSERT")
		return s, nil
	})
	if !errors.Is(err, lock.ErrFull) {
		t.Fatal(err)
	}
	try(pageful)
	try(1)
}
