package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/repo"
)

var servers stacktest.Shared

// testsAtOnce is how many tests run at the same time. Nearly all of them wait for a lease or for a server, and compute
// little.
const testsAtOnce = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", testsAtOnce); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(servers.Around(m))
}

// pool opens dsn as the service does.
func pool(t testing.TB, dsn string, most int) *sql.DB {
	t.Helper()
	g, err := repo.OpenMySQL(dsn, repo.Pool{Open: most})
	if err != nil {
		t.Fatal(err)
	}
	db, err := g.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// migrate brings the schema of dsn up.
func migrate(t testing.TB, dsn string) {
	t.Helper()
	g, err := repo.OpenMySQL(dsn, repo.Pool{Open: 4})
	if err != nil {
		t.Fatal(err)
	}
	if db, err := g.DB(); err == nil {
		defer db.Close()
	}
	m, err := repo.NewMigrator(g)
	if err == nil {
		_, err = m.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// database is the DSN of a database with the schema, which is the test's own.
func database(t testing.TB) string {
	t.Helper()
	return servers.FilledMariaDB(t, migrate)
}

// A locker with a fence range that is closed.
type locker interface {
	lock.FenceRanger
	Close() error
}

// A kind is one of the locks of this package.
type kind struct {
	name string
	make func(db *sql.DB, lease time.Duration) locker
}

var (
	table = kind{
		"table",
		func(db *sql.DB, lease time.Duration) locker { return NewTable(db, TableOptions{Lease: lease}) },
	}
	forUpdate = kind{"for update", func(db *sql.DB, lease time.Duration) locker {
		return NewForUpdate(db, ConnOptions{Lease: lease})
	}}
	getLock = kind{"get lock", func(db *sql.DB, lease time.Duration) locker {
		return NewGetLock(db, ConnOptions{Lease: lease})
	}}
)

// open makes a lock with a pool of its own, as another process has.
func (k kind) open(t testing.TB, dsn string, lease time.Duration) locker {
	t.Helper()
	l := k.make(pool(t, dsn, 12), lease)
	t.Cleanup(func() { l.Close() })
	return l
}

// each runs test for the kinds, beside other tests.
func each(t *testing.T, kinds []kind, test func(t *testing.T, k kind)) {
	t.Parallel()
	eachBeside(t, kinds, test)
}

// eachBeside runs test for the kinds, beside one another and not beside other tests.
func eachBeside(t *testing.T, kinds []kind, test func(t *testing.T, k kind)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k)
		})
	}
}

var (
	all  = []kind{table, forUpdate, getLock}
	pins = []kind{forUpdate, getLock}

	noExpiry = kind{
		"no expiry",
		func(db *sql.DB, _ time.Duration) locker { return NewTable(db, TableOptions{NoExpiry: true}) },
	}
)

// insist repeats op while the server does not answer within the 1.5 s that a lock gives it, for a minute at most: a
// busy computer may be late, and a client would ask again.
func insist[T any](op func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		got, err := op()
		if !errors.Is(err, lock.ErrDown) || time.Since(began) > patience {
			return got, err
		}
	}
}

// acquire waits for key.
func acquire(t testing.TB, l lock.Locker, key string) *lock.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := insist(func() (*lock.Lease, error) { return l.Acquire(ctx, key, lock.Options{}) })
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	t.Cleanup(func() { _ = lease.Release() })
	return lease
}

// release gives a lease back. A server that is too busy to answer frees the key later.
func release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrDown) {
		t.Errorf("release: %v", err)
	}
}

// warm sets up the one connection of l, and returns its id. The next lease will live in it.
func warm(t testing.TB, l locker) int64 {
	t.Helper()
	for err := lock.ErrDown; err != nil; { // a busy server may not answer in time, and then the connection is closed
		err = acquire(t, l, "k").Release()
	}
	return connection(t, l)
}

// patience is how long a test waits for what must come, on a computer that has other work.
const patience = time.Minute

// soon is when an answer has come that takes 3 s at most, on a busy computer. It is less than a minute, the lease of
// those tests in which nothing may be had by waiting for its end, and than the 50 s for which InnoDB waits for a row.
const soon = 40 * time.Second

// loss waits for the end of a lease.
func loss(t testing.TB, lease *lock.Lease) error {
	t.Helper()
	select {
	case <-lease.Done():
		if !errors.Is(lease.Err(), lock.ErrLost) {
			t.Errorf("ended with %v, want ErrLost", lease.Err())
		}
		return lease.Err()
	case <-time.After(patience):
		t.Fatal("no loss was signalled")
		return nil
	}
}

// eventually polls until what holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not seen within %v: %s", patience, what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// free wants that key can be had soon, and that it is not had by waiting for a lease to run out.
func free(t testing.TB, l lock.Locker, key string) {
	t.Helper()
	if err := becomesFree(t, l, key); err != nil {
		t.Fatalf("%s does not become free: %v", key, err)
	}
}

// becomesFree is what an Acquire says last, if the key does not become free.
func becomesFree(t testing.TB, l lock.Locker, key string) error {
	t.Helper()
	for deadline := time.Now().Add(soon); ; {
		lease, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
		if err == nil {
			release(t, lease)
			return nil
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

// count asks for a number.
func count(t testing.TB, db *sql.DB, query string, args ...any) (n int) {
	t.Helper()
	if err := db.QueryRow(query, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func execSQL(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.Exec(statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// waiting is how many statements wait for a lock in the database of db.
func waiting(t testing.TB, db *sql.DB) int {
	t.Helper()
	return count(
		t,
		db,
		"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"+
			" AND (INFO LIKE '%FOR UPDATE%' OR INFO LIKE '%GET_LOCK%')",
	)
}

// connection is the id of the only connection that l has set up, which must be idle and is the one that the next
// lease will live in.
func connection(t testing.TB, l locker) int64 {
	t.Helper()
	var idle []*session
	switch l := l.(type) {
	case *ForUpdate:
		idle = l.sessions.idle
	case *GetLock:
		idle = l.sessions.idle
	}
	if len(idle) != 1 {
		t.Fatalf("%d idle connections", len(idle))
	}
	return idle[0].id
}

// addr is the address in a DSN.
func addr(dsn string) string {
	_, rest, _ := strings.Cut(dsn, "(")
	found, _, _ := strings.Cut(rest, ")")
	return found
}

func via(dsn string, p *proxy) string { return strings.Replace(dsn, addr(dsn), p.Addr(), 1) }

func keyN(n int) string { return fmt.Sprint("key-", n) }

// activeTransaction is how the server lists one in SHOW ENGINE INNODB STATUS; further lines say what it does, and by
// which connection.
var activeTransaction = regexp.MustCompile(
	`(?m)^---TRANSACTION [^\n]*, ACTIVE(?:.*\n)(?:[^-\n].*\n)*?\S+ thread id (\d+),`,
)

// transactions is how many are open in the database of db, now. It does not ask information_schema.INNODB_TRX: that
// keeps what it has shown until nobody on the server has asked for 100 ms, so tests that poll it beside one another
// see the same for ever.
func transactions(t testing.TB, db *sql.DB) int {
	t.Helper()
	var kind, name, status string
	if err := db.QueryRow("SHOW ENGINE INNODB STATUS").Scan(&kind, &name, &status); err != nil {
		t.Fatal(err)
	}
	open := 0
	for _, match := range activeTransaction.FindAllStringSubmatch(status, -1) {
		id, err := strconv.ParseInt(match[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		open += count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND DB = DATABASE()", id)
	}
	return open
}
