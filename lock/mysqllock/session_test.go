package mysqllock

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
)

// A connection on which a statement waits for a row does not end when it is closed: the server does not look at the
// network meanwhile. It is told from another one.
func TestABrokenConnectionIsEndedAtTheServer(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	l := NewForUpdate(pool(t, dsn, 4), ConnOptions{})
	t.Cleanup(func() { _ = l.Close() })
	s, err := l.sessions.take(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.exec(t.Context(), "SET SESSION innodb_lock_wait_timeout = 600"); err != nil {
		t.Fatal(err)
	}
	watch := pool(t, dsn, 1)
	execSQL(t, watch, "INSERT INTO lock_rows (name) VALUES ('taken')")
	holder, err := pool(t, dsn, 1).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback() }()
	const take = "SELECT name FROM lock_rows WHERE name = 'taken' FOR UPDATE"
	if _, err := holder.Exec(take); err != nil {
		t.Fatal(err)
	}
	there := func(what string) bool {
		return count(t, watch, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND"+
			" COALESCE(INFO, '') LIKE ?", s.id, what) == 1
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.conn.ExecContext(ctx, take)
		ended <- err
	}()
	eventually(t, "it waits", func() bool { return there("SELECT name%") })
	cancel()
	if s.check(<-ended) == nil || !s.broken {
		t.Fatal("the statement ended: this proves nothing")
	}
	l.sessions.put(t.Context(), s)
	eventually(t, "it is gone", func() bool { return !there("%") })
}

// A holder that lost its lease and hangs keeps no other of its process from the server.
func TestALostLeaseLetsOthersOfTheProcessIn(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.open(t, dsn, 0)
		id := warm(t, l)
		hung := acquire(t, l, "k")
		execSQL(t, pool(t, dsn, 1), fmt.Sprintf("KILL CONNECTION %d", id))
		_ = loss(t, hung)
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		next, err := l.Acquire(ctx, "k", lock.Options{}) // the first one has not been released
		if err != nil {
			t.Fatalf("the next one: %v", err)
		}
		_ = hung.Release()
		if pinnedOf(l).queue.State("k").Holder == nil {
			t.Error("the release of a lost lease let another in")
		}
		release(t, next)
	})
}

// The session of a holder may live on without its lock: a server can end a transaction alone, and behind a proxy the
// session can be another one. The next renewal notices it.
func TestTheLockEndsAndTheSessionDoesNot(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		l := k.open(t, database(t), 0)
		lease := acquire(t, l, "k")
		var s *session
		p := pinnedOf(l)
		p.sessions.mu.Lock()
		for s = range p.sessions.leases {
		}
		p.sessions.mu.Unlock()
		s.asking.Lock()
		err := p.primitive.release(t.Context(), s, "k")
		s.asking.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if err := loss(t, lease); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("lost because of %v, want ErrExpired", err)
		}
		free(t, l, "k")
	})
}

func pinnedOf(l locker) *pinned {
	switch l := l.(type) {
	case *ForUpdate:
		return l.pinned
	case *GetLock:
		return l.pinned
	}
	return nil
}

// Where a row is missing, REPEATABLE READ locks the gap, which excludes only those who insert: they deadlock.
func TestRowLocksAreTakenInReadCommitted(t *testing.T) {
	t.Parallel()
	l := NewForUpdate(pool(t, database(t), 4), ConnOptions{})
	t.Cleanup(func() { _ = l.Close() })
	release(t, acquire(t, l, "k"))
	s := l.sessions.idle[0]
	var level string
	if err := s.conn.QueryRowContext(t.Context(), "SELECT @@tx_isolation").Scan(&level); err != nil {
		t.Fatal(err)
	}
	if level != "READ-COMMITTED" {
		t.Errorf("the level is %s, want READ-COMMITTED", level)
	}
}

// A late fence is one whose server was heard of a lease ago.
type lateFence struct{ primitive }

func (l lateFence) drawFence(
	ctx context.Context, s *session, key string, o lock.Options,
) (lock.Fence, time.Time, error) {
	fence, heard, err := l.primitive.drawFence(ctx, s, key, o)
	return fence, heard.Add(-lock.Valid(10 * time.Second)), err
}

// A process that was paused while it drew the fence has no lease: the server has ended the connection by then.
func TestAFenceAfterTheLeaseIsNone(t *testing.T) {
	t.Parallel()
	l := NewGetLock(pool(t, database(t), 4), ConnOptions{})
	t.Cleanup(func() { _ = l.Close() })
	sound := l.primitive
	l.primitive = lateFence{sound}
	if lease, err := l.Acquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrDown) {
		t.Errorf("%+v, %v; want down", lease, err)
	}
	l.primitive = sound
	release(t, acquire(t, l, "k"))
}

// The key may come at the moment at which the wait ends: then it is given back.
func TestAKeyThatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	l := NewGetLock(pool(t, database(t), 4), ConnOptions{})
	t.Cleanup(func() { _ = l.Close() })
	s, err := l.sessions.take(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if lease, err := l.lease(over, s, "k", lock.Options{}); !errors.Is(err, errBusy) {
		t.Errorf("%+v, %v; want none", lease, err)
	}
	l.sessions.put(t.Context(), s)
}

// The server may have ended a session that was idle for long, and one whose socket has ended is of no use.
func TestAnIdleSessionIsNotUsedForEver(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := pool(t, dsn, 4)
	l := NewGetLock(db, ConnOptions{})
	t.Cleanup(func() { _ = l.Close() })
	first := warm(t, l)
	if again := warm(t, l); again != first {
		t.Errorf("session %d was not used again, but %d", first, again)
	}
	l.sessions.idle[0].idleSince = time.Now().Add(-l.sessions.fresh)
	s := l.sessions.takeIdle()
	if s != nil {
		t.Errorf("session %d is used, idle for too long", s.id)
	}
	execSQL(t, pool(t, dsn, 1), fmt.Sprintf("KILL CONNECTION %d", warm(t, l)))
	idle := l.sessions.idle[0]
	eventually(t, "the end is heard", func() bool { return idle.checkSocket() != nil })
	if s := l.sessions.takeIdle(); s != nil {
		t.Errorf("session %d is used, and its socket has ended", s.id)
	}
}

// A namedServer answers GET_LOCK with an error or NULL, and RELEASE_LOCK as if the lock had been granted or not.
type namedServer struct {
	got      error // nil: NULL
	released driver.Value
}

func (n namedServer) Connect(context.Context) (driver.Conn, error) { return n, nil }
func (n namedServer) Driver() driver.Driver                        { return nil }
func (n namedServer) Prepare(string) (driver.Stmt, error)          { return nil, errors.ErrUnsupported }

func (n namedServer) Begin() (driver.Tx, error) { return nil, errors.ErrUnsupported }
func (n namedServer) Close() error              { return nil }

func (n namedServer) QueryContext(_ context.Context, text string, _ []driver.NamedValue) (driver.Rows, error) {
	if strings.Contains(text, "RELEASE_LOCK") {
		return &oneRow{n.released, false}, nil
	}
	return &oneRow{}, n.got
}

// oneRow is a row of one column.
type oneRow struct {
	value driver.Value
	read  bool
}

func (*oneRow) Columns() []string { return []string{"x"} }
func (*oneRow) Close() error      { return nil }

func (r *oneRow) Next(into []driver.Value) error {
	if r.read {
		return io.EOF
	}
	into[0], r.read = r.value, true
	return nil
}

// A GET_LOCK that was interrupted may have been granted at the same moment. A session on which a lock was left is not
// used again: it would keep a key that nobody holds.
func TestALockLeftBehindBreaksTheSession(t *testing.T) {
	for name, row := range map[string]struct {
		got      error
		released driver.Value
		broken   bool
	}{
		"NULL, and nobody has it":       {nil, nil, false},
		"NULL, and another has it":      {nil, int64(0), false},
		"NULL, and it was ours":         {nil, int64(1), true},
		"interrupted, and it was ours":  {&mysql.MySQLError{Number: mysqlerr.Interrupted}, int64(1), true},
		"interrupted, and it was not":   {&mysql.MySQLError{Number: mysqlerr.Interrupted}, int64(0), false},
		"out of time, and it was ours":  {&mysql.MySQLError{Number: mysqlerr.StatementTime}, int64(1), true},
		"the connection broke meantime": {driver.ErrBadConn, int64(0), true},
	} {
		t.Run(name, func(t *testing.T) {
			db := sql.OpenDB(namedServer{row.got, row.released})
			defer db.Close()
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			s := &session{db: db, conn: conn, database: "stock", born: time.Now()}
			if err := (namedLock{}).acquire(t.Context(), s, "k", lock.Options{TryOnce: true}); err == nil {
				t.Error("it was acquired")
			}
			if s.broken != row.broken {
				t.Errorf("broken: %t, want %t", s.broken, row.broken)
			}
		})
	}
}
