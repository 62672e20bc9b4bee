package mysqllock

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/servertest"
)

// The round trips of an acquisition, a failed try and a release once the connections are made. The first use of a key
// costs more.
func TestRoundTrips(t *testing.T) {
	type costs struct{ first, acquire, try, inspect, release int }
	want := map[string]costs{
		table.name: {3, 1, 2, 1, 1}, forUpdate.name: {6, 3, 2, 6, 1}, getLock.name: {2, 2, 1, 4, 1},
	}
	each(t, all, func(t *testing.T, k kind) {
		p := newProxy(t, database(t))
		l, other := k.open(t, p.dsn, ConnOptions{}), k.open(t, p.dsn, ConnOptions{})
		locktest.Release(t, acquire(t, l, "another"))
		locktest.Release(t, acquire(t, other, "another"))
		trips := func(op func()) int {
			before := p.Requests()
			op()
			return p.Requests() - before
		}
		var got costs
		var lease *lock.Lease
		got.first = trips(func() { lease = acquire(t, l, "k") })
		locktest.Release(t, lease)
		got.acquire = trips(func() { lease = acquire(t, l, "k") })
		got.try = trips(func() { _ = locktest.Try(t, other, "k") })
		got.release = trips(func() { locktest.Release(t, lease) })
		inspect(t, other, "k") // may make a connection
		got.inspect = trips(func() {
			_, _ = lock.InspectAll(t.Context(), other, slices.Repeat([]string{"k", "free"}, 100))
		})
		if got != want[k.name] {
			t.Errorf("%+v, want %+v", got, want[k.name])
		}
	})
}

// A statement that the server undoes because of another one, or ends because of its time or for an operator, is no
// failure, wherever it happens: a waiter waits on, however often. For a try endless collisions are one. What an
// operator must mend is an ErrDenied: a server that writes its binary log by statement refuses to write in READ
// COMMITTED.
func TestCollisionsAndQueryKillers(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		p := newProxy(t, database(t))
		l := k.open(t, p.dsn, ConnOptions{})
		locktest.Release(t, acquire(t, l, "k"))
		for _, number := range []uint16{
			mysqlerr.Deadlock, mysqlerr.LockWaitTimeout,
			mysqlerr.Interrupted, mysqlerr.StatementTime, mysqlerr.ExecutionTime,
		} {
			for _, word := range []string{"LAST_INSERT_ID", "FOR UPDATE", "GET_LOCK("} {
				p.fail(word, number, 2*maxTries)
				locktest.Release(t, acquire(t, l, "k"))
			}
		}
		p.fail("LAST_INSERT_ID", mysqlerr.Deadlock, math.MaxInt)
		if err := locktest.Try(t, l, "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("endless collisions: %v, want ErrHeld", err)
		}
		p.fail("LAST_INSERT_ID", mysqlerr.BinlogFormat, 1)
		if err := locktest.Try(t, l, "k"); !errors.Is(err, lock.ErrDenied) {
			t.Errorf("a binary log of statements: %v, want ErrDenied", err)
		}
		locktest.Release(t, acquire(t, l, "k"))
	})
}

// A GET_LOCK that is interrupted may have been granted at the same moment: its session would keep a key that nobody
// holds, so it is ended.
func TestAnInterruptedGetLockWasGranted(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, dsn)
	l := getLock.open(t, p.dsn, ConnOptions{})
	p.change(func(text string) string {
		if !strings.Contains(text, "SELECT GET_LOCK(") {
			return text
		}
		call, _, _ := strings.Cut(strings.TrimPrefix(text, "SELECT "), " /*")
		return "SELECT NULLIF(" + call + ", 1)"
	})
	short, cancel := context.WithTimeout(t.Context(), patience/6)
	defer cancel()
	if err := <-locktest.Come(short, l, "k", "a long name"); err == nil {
		t.Error("acquired")
	}
	locktest.Release(t, acquire(t, getLock.open(t, dsn, ConnOptions{}), "k"))
}

// After a fail-over behind a proxy the old connections still lead to the old master, which is read-only now. A lock
// leaves a connection that tells so: the next one may lead to the new master.
func TestAReadOnlyServerIsLeft(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p, watcher := newProxy(t, dsn), pool(t, dsn, 1)
		l := k.open(t, p.dsn, ConnOptions{})
		locktest.Release(t, acquire(t, l, "k"))
		const connections = "FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"
		var latest int64
		if err := watcher.QueryRow("SELECT MAX(ID) " + connections).Scan(&latest); err != nil {
			t.Fatal(err)
		}
		for _, write := range []string{"LAST_INSERT_ID", "lock_rows SET thread"} {
			p.fail(write, mysqlerr.OptionPrevents, 1)
			locktest.Release(t, acquire(t, l, "k"))
		}
		locktest.Eventually(t, "only new connections", func() bool {
			var old int
			err := watcher.QueryRow("SELECT COUNT(*) "+connections+" AND ID <= ?", latest).Scan(&old)
			return err == nil && old == 0
		})
	})
}

// On a server that ignores the character set of its clients no key and no owner becomes SQL: each key is a lock of its
// own, and other rows stay as they are.
func TestAServerWithGBK(t *testing.T) {
	t.Parallel()
	dsn := servertest.GBK(t).URL
	makeTables(t, dsn)
	names := append(servertest.Injections(), "\xd6'; DROP TABLE locks; -- ", "\xd6\xd0' OR 1=1 -- ")
	for _, k := range all {
		l, other := k.open(t, dsn, ConnOptions{Lease: patience}), k.open(t, dsn, ConnOptions{})
		acquire(t, l, "bystander")
		for _, name := range names {
			lease := acquire(t, l, name)
			if h := inspect(t, other, name).Holder; h == nil || h.Who != ownerColumn(name) {
				t.Errorf("%s: the holder of %q: %+v", k.name, name, h)
			}
			locktest.Release(t, lease)
		}
		if err := locktest.Try(t, other, "bystander"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("%s: the key of another: %v, want ErrHeld", k.name, err)
		}
	}
}

// An error about a missing table says what creates it, and not that the server is down. No lock is left.
func TestAMissingTable(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := servers.MariaDB(t)
		l := k.open(t, dsn, ConnOptions{})
		_, inspected := lock.Inspect(t.Context(), l, "k")
		for _, err := range []error{locktest.Try(t, l, "k"), inspected} {
			var down *driver.DownError // what an instance tells its clients
			if !errors.As(err, &down) || down.Reason != "no-schema" || strings.Contains(err.Error(), "down") ||
				!strings.Contains(err.Error(), "mysqllock.Schema") {
				t.Errorf("%v does not say what makes the tables, or calls the server down", err)
			}
		}
		makeTables(t, dsn)
		locktest.Release(t, acquire(t, l, "k"))
	})
}

// One of the notes with which this project began has a table of locks with a blank inside a name: docs/claims.md, 18.
func TestABlankInsideAName(t *testing.T) {
	t.Parallel()
	db := pool(t, database(t), 1)
	_, err := db.Exec("CREATE TABLE method_locks (id INT PRIMARY KEY, method_ name INT, UNIQUE (method_name))")
	if n := mysqlerr.Number(err); n != 1064 && n != 4161 { // MariaDB takes the rest of the name for a type
		t.Errorf("with a blank: %v, want error 1064 or 4161", err)
	}
	execSQL(t, db, "CREATE TABLE method_locks (id INT PRIMARY KEY, method_name INT, UNIQUE (method_name))")
}
