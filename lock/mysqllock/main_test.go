package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

// The contract is tested by lock/locktest, on real servers and with several processes: see conformance_test.go. The
// other tests of this package are for what that suite cannot express.

var servers servertest.Shared

// Servers returns servers, for the examples, which are outside the package.
func Servers() *servertest.Shared { return &servers }

func TestMain(m *testing.M) { goleak.VerifyTestMain(servers.Around(m, server.MySQL)) }

// patience is how long a test waits for what must come, on a computer that has other work.
const patience = time.Minute

// OpenPool opens a pool as the documentation of this package asks for. It connects nothing.
func OpenPool(dsn string, most int) (*sql.DB, error) {
	c, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	c.Timeout, c.InterpolateParams, c.Logger = time.Second, true, &mysql.NopLogger{}
	c.Params = map[string]string{
		"character_set_client": "utf8mb4", "character_set_results": "utf8mb4",
		"collation_connection": "utf8mb4_general_ci",
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	return db, nil
}

func pool(t testing.TB, dsn string, most int) *sql.DB {
	t.Helper()
	db, err := OpenPool(dsn, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// database is the DSN of a database with the schema, which is the test's own.
func database(t testing.TB) string { return servers.FilledMariaDB(t, makeTables) }

func makeTables(t testing.TB, dsn string) {
	t.Helper()
	db := pool(t, dsn, 1)
	for _, statement := range Schema() {
		execSQL(t, db, statement)
	}
}

// A locker is a lock of this package.
type locker interface {
	driver.FenceRanger
	driver.Inspector
	driver.Evictor
	driver.Lister
	Close() error
}

// A kind is one of the locks of this package.
type kind struct {
	name string
	make func(*sql.DB, ConnOptions) locker
}

var (
	table = kind{"table", func(db *sql.DB, o ConnOptions) locker {
		return NewTable(db, TableOptions{Lease: o.Lease, MaxHold: o.MaxHold})
	}}
	forUpdate = kind{"for update", func(db *sql.DB, o ConnOptions) locker { return NewForUpdate(db, o) }}
	getLock   = kind{"get lock", func(db *sql.DB, o ConnOptions) locker { return NewGetLock(db, o) }}

	all  = []kind{table, forUpdate, getLock}
	pins = []kind{forUpdate, getLock}
)

// open makes a lock with a pool of its own, as another process has.
func (k kind) open(t testing.TB, dsn string, o ConnOptions) locker {
	t.Helper()
	l := k.make(pool(t, dsn, max(12, o.MaxConns+2)), o)
	t.Cleanup(func() { l.Close() })
	return l
}

// each runs test for the kinds, beside other tests.
func each(t *testing.T, kinds []kind, test func(*testing.T, kind)) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

// insist repeats op while the server does not answer within the 1.5 s that a lock gives it: a busy computer may be
// late, and a client would ask again.
func insist[T any](t testing.TB, op func(context.Context) (T, error)) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		got, err := op(ctx)
		if err == nil {
			return got
		}
		if !errors.Is(err, lock.ErrDown) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// acquire waits for key, for an owner of that name.
func acquire(t testing.TB, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	return locktest.Acquire(t, l, key, key)
}

func succeed(t testing.TB, came ...<-chan error) {
	t.Helper()
	for _, one := range came {
		if err := <-one; err != nil {
			t.Error(err)
		}
	}
}

func execSQL(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// kill ends a connection at the server.
func kill(t testing.TB, dsn string, id int64) { execSQL(t, pool(t, dsn, 1), "KILL CONNECTION ?", id) }

func inspect(t testing.TB, l lock.Locker, key string) lock.State {
	t.Helper()
	return insist(t, func(ctx context.Context) (lock.State, error) { return lock.Inspect(ctx, l, key) })
}

func pinnedOf(l locker) *pinned {
	if l, ok := l.(*ForUpdate); ok {
		return l.pinned
	}
	return l.(*GetLock).pinned
}

// warm sets up the one session of l, and returns the id of its connection. The next lease will live in it.
func warm(t testing.TB, l locker) int64 {
	t.Helper()
	sessions := pinnedOf(l).sessions
	for len(sessions.idle) == 0 { // a busy server may not answer in time, and then the connection is closed
		_ = acquire(t, l, "warm").Release()
	}
	return sessions.idle[0].id
}

// A proxy between a lock and its server changes what it is told to.
type proxy struct {
	*wire.Proxy
	dsn string // of the database, through the proxy

	mu      sync.Mutex
	rewrite func(text string) string
}

func newProxy(t testing.TB, dsn string) *proxy {
	t.Helper()
	_, rest, _ := strings.Cut(dsn, "(")
	addr, _, _ := strings.Cut(rest, ")")
	w, err := wire.Listen(addr, wire.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	p := &proxy{Proxy: w, dsn: strings.Replace(dsn, addr, w.Addr(), 1)}
	p.change(func(text string) string { return text })
	w.Set(wire.Trap{Match: func(message []byte) bool {
		const header, quit = 4, 1
		if len(message) > header && message[3] == 0 && message[header] != quit { // no part of the log-in, no good-bye
			p.mu.Lock()
			defer p.mu.Unlock()
			text := string(message[header+1:])
			copy(message[header+1:], fmt.Sprintf("%-*s", len(text), p.rewrite(text)))
		}
		return false // it holds nothing up
	}})
	return p
}

// change makes the proxy pass rewrite(text) on instead of text, cut to the same length.
func (p *proxy) change(rewrite func(text string) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rewrite = rewrite
}

// fail makes the server answer with an error to the first of the requests that contain word.
func (p *proxy) fail(word string, number uint16, times int) {
	n := 0
	p.change(func(text string) string {
		if !strings.Contains(text, word) || n == times {
			return text
		}
		n++
		return fmt.Sprintf("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = %d", number)
	})
}
