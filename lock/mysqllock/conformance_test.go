package mysqllock

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

func TestContender(t *testing.T) { locktest.Contend(t, harnesses()...) }

// Every lock on MySQL, handed over as a service would, but with a shorter lease.
func TestStrategiesConform(t *testing.T) {
	t.Parallel()
	list := harnesses()
	server := start(t)
	for i := range list {
		list[i].Servers = server
	}
	locktest.Conform(t, list...)
}

func harnesses() []locktest.Harness {
	return []locktest.Harness{
		harness("mysql-table", table, new(Table).Promise(), rows("locks"),
			"the row of each key stays, with its last fence, for ever"),
		harness("mysql-for-update", forUpdate, new(ForUpdate).Promise(), rows("lock_rows", "lock_fences"),
			"the row of each key stays, and another with its last fence, for ever"),
		harness("mysql-get-lock", getLock, new(GetLock).Promise(), rows("lock_fences"),
			"a row with the last fence of each key stays, for ever"),
	}
}

func harness(
	name string, k kind, promise driver.Promise,
	kept func(ctx context.Context, addrs []string, key string) (int, error), keeps string,
) locktest.Harness {
	opener := func(open func(addr string) (*sql.DB, error)) locktest.Opener {
		return func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
			db, err := open(addrs[0])
			if err != nil {
				return nil, nil, err
			}
			l := k.make(db, ConnOptions{Lease: lease})
			return lock.HandOver(l, lock.Bound{}), func() error {
				if err := l.Close(); err != nil {
					return err
				}
				return db.Close()
			}, nil
		}
	}
	limited := func(addr string) (*sql.DB, error) { return openAddr(addr, 12) }
	defaults := func(addr string) (*sql.DB, error) { return sql.Open("mysql", "root@tcp("+addr+")/stock") }
	return locktest.Harness{
		Name: name, Promise: promise, Renews: true, Wire: wire.MySQL(), Left: left, Start: start,
		Limit: limitStatements,
		Lease: 2 * time.Second, // long beside what a busy computer may stop a process for
		Kept:  kept, Keeps: keeps,
		Open: opener(limited), Plain: []locktest.Opener{opener(defaults)},
	}
}

// openAddr opens a pool. It connects nothing.
func openAddr(addr string, most int) (*sql.DB, error) {
	return OpenPool("root@tcp("+addr+")/stock", most)
}

func start(t testing.TB) []locktest.Server {
	s := servertest.Server(t, server.MySQL)
	makeTables(t, s.URL)
	return []locktest.Server{{Addr: s.Addr, Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume}}
}

// limitStatements sets the time limit of the statements of new sessions.
func limitStatements(ctx context.Context, addrs []string) error {
	db, err := openAddr(addrs[0], 1)
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, fmt.Sprint("SET GLOBAL max_statement_time = ", locktest.StatementLimit.Seconds()))
	return err
}

// rows returns a function that counts the rows of a key in the tables of a lock.
func rows(tables ...string) func(ctx context.Context, addrs []string, key string) (int, error) {
	return func(ctx context.Context, addrs []string, key string) (n int, err error) {
		db, err := openAddr(addrs[0], 1)
		if err != nil {
			return 0, err
		}
		defer db.Close()
		for _, table := range tables {
			var rows int
			query := "SELECT COUNT(*) FROM " + table + " WHERE name LIKE ?"
			if err := db.QueryRowContext(ctx, query, key+"%").Scan(&rows); err != nil {
				return 0, err
			}
			n += rows
		}
		return n, nil
	}
}

// left is every row of the lock table that is held, every lock row that a transaction has, and every named lock.
func left(ctx context.Context, addrs []string, key string) ([]string, error) {
	db, err := openAddr(addrs[0], 1)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	like := key + "%"
	var found []string
	var n int
	const held = "SELECT COUNT(*) FROM locks WHERE name LIKE ? AND (expires_at > UTC_TIMESTAMP(6) OR token <> '')"
	if err := db.QueryRowContext(ctx, held, like).Scan(&n); err != nil {
		return nil, err
	}
	if n > 0 {
		found = append(found, fmt.Sprintf("%d rows that are held", n))
	}
	const locked = "SELECT COUNT(*) FROM (SELECT 1 FROM lock_rows WHERE name LIKE ? FOR UPDATE NOWAIT) r"
	if err := db.QueryRowContext(ctx, locked, like).Scan(&n); err != nil {
		found = append(found, "lock rows in a transaction: "+err.Error())
	}
	for i := range 5 {
		name := fmt.Sprintf("stock/stock/%s-%d", key, i)
		if err := db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?) IS NOT NULL", name).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			found = append(found, name)
		}
	}
	return found, nil
}
