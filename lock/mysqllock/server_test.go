package mysqllock

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

// The servers: what they answer, their character sets, their tables.

// The round trips of an acquisition and a release on a free key, and of a try on a held one, once the lock is warm.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		kind                     kind
		first, acquire, try, end int
	}{
		// A connection is two round trips, one that sets its variables, and one that reads its character set back.
		{table, 4 + 1, 1, 2, 1},
		{forUpdate, 2*2 + 3 + 6, 3, 2, 1}, // two connections, set up one: lock + insert + commit + lock + fence + name
		{getLock, 2 + 2 + 2, 2, 1, 1},      // a connection, set it up: lock + fence
	} {
		t.Run(row.kind.name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, database(t))
			l, other := row.kind.open(t, p.dsn, ConnOptions{}), row.kind.open(t, p.dsn, ConnOptions{})
			count := func(what string, want int, op func()) {
				t.Helper()
				if got := p.during(op); len(got) != want {
					t.Errorf("%s: %d round trips, want %d: %q", what, len(got), want, got)
				}
			}
			var lease *lock.Lease
			count("first use", row.first, func() { lease = acquire(t, l, "k") })
			count("release", row.end, func() { release(t, lease) })
			release(t, acquire(t, other, "k"))
			count("acquire", row.acquire, func() { lease = acquire(t, l, "k") })
			count("try a held key", row.try, func() {
				if err := try(t, other, "k"); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("%v, want ErrHeld", err)
				}
			})
			count("release", row.end, func() { release(t, lease) })
		})
	}
}

// A collision that the server resolves by undoing one of two statements is no failure, wherever it happens; endless
// ones are.
func TestCollisions(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		p := newProxy(t, database(t))
		l := k.open(t, p.dsn, ConnOptions{})
		release(t, acquire(t, l, "k"))
		for _, word := range []string{"LAST_INSERT_ID", "FOR UPDATE", "GET_LOCK("} {
			for _, number := range []uint16{mysqlerr.Deadlock, mysqlerr.LockWaitTimeout} {
				p.fail(word, number, 3)
				release(t, acquire(t, l, "k"))
			}
		}
		p.fail("LAST_INSERT_ID", mysqlerr.Deadlock, math.MaxInt)
		if err := try(t, l, "k"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("endless collisions: %v, want ErrHeld", err)
		}
		p.fail("", 0, 0)
		release(t, acquire(t, l, "k"))
	})
}

// With real collisions: many make the same rows at the same time while somebody takes his own back again.
func TestFirstUseTogether(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		var lockers []locker
		for range 6 {
			lockers = append(lockers, k.open(t, dsn, ConnOptions{}))
		}
		for round := range stacktest.Rounds(10, 3) {
			key := keyN(round)
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			for _, statement := range []string{
				"INSERT INTO locks VALUES (?, '', '', '1970-01-01', 0)",
				"INSERT INTO lock_rows (name) VALUES (?)",
				"INSERT INTO lock_fences (name, fence) VALUES (?, 0)",
			} {
				if _, err := tx.Exec(statement, key); err != nil {
					t.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for _, l := range lockers {
				all.Go(func() { release(t, acquire(t, l, key)) })
			}
			<-time.After(5 * time.Millisecond) // lets them come to the row; if they have not, the round is only weaker
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
			all.Wait()
		}
	})
}

// A waiter waits on when its statement is ended, by an operator, a query killer or a time limit, however often.
func TestAQueryKiller(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		p := newProxy(t, database(t))
		l := k.open(t, p.dsn, ConnOptions{})
		release(t, acquire(t, l, "k"))
		for _, word := range []string{"UPDATE locks SET token", "FOR UPDATE", "GET_LOCK("} {
			for _, number := range []uint16{mysqlerr.Interrupted, mysqlerr.StatementTime, mysqlerr.ExecutionTime} {
				p.fail(word, number, 2*maxTries)
				release(t, acquire(t, l, "k"))
			}
		}
	})
}

// A GET_LOCK that is interrupted may have been granted at the same moment: its session would keep a key that nobody
// holds, so it is ended.
func TestAnInterruptedGetLockWasGranted(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, dsn)
	l := getLock.open(t, p.dsn, ConnOptions{})
	warm(t, l)
	p.change(func(text string) string {
		if !strings.Contains(text, "SELECT GET_LOCK(") {
			return text
		}
		call, _, _ := strings.Cut(strings.TrimPrefix(text, "SELECT "), " /*")
		return "SELECT NULLIF(" + call + ", 1)"
	})
	if lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "a long name"}); err == nil {
		t.Errorf("acquired with fence %d", lease.Fence())
	}
	release(t, acquire(t, getLock.open(t, dsn, ConnOptions{}), "k"))
}

// A server that writes its binary log by statement refuses the first INSERT of a READ COMMITTED transaction. That is for
// an operator to mend, and no caller need try again.
func TestAStatementBinlog(t *testing.T) {
	t.Parallel()
	p := newProxy(t, database(t))
	l := forUpdate.open(t, p.dsn, ConnOptions{})
	p.fail("INSERT IGNORE", mysqlerr.BinlogFormat, math.MaxInt)
	if err := try(t, l, "k"); !errors.Is(err, lock.ErrDenied) || !errors.Is(err, lock.ErrDown) {
		t.Errorf("%v, want ErrDenied", err)
	}
	p.fail("", 0, 0)
	release(t, acquire(t, l, "k"))
}

// Where a row is missing, REPEATABLE READ locks the gap, which excludes only those who insert: they deadlock.
func TestRowLocksAreTakenInReadCommitted(t *testing.T) {
	t.Parallel()
	l := forUpdate.open(t, database(t), ConnOptions{})
	warm(t, l)
	var level string
	s := pinnedOf(l).sessions.idle[0]
	if err := s.conn.QueryRowContext(t.Context(), "SELECT @@tx_isolation").Scan(&level); err != nil {
		t.Fatal(err)
	}
	if level != "READ-COMMITTED" {
		t.Errorf("the level is %s, want READ-COMMITTED", level)
	}
}

// On a server that ignores the character set of its clients no key and no owner becomes SQL: each key is a lock of its
// own, and other rows stay as they are.
func TestAServerWithGBK(t *testing.T) {
	t.Parallel()
	dsn := stacktest.GBK(t).URL
	migrate(t, dsn)
	names := append(stacktest.Injections(), "\xd6'; DROP TABLE locks; -- ", "\xd6\xd0' OR 1=1 -- ")
	for _, k := range all {
		l, other := k.open(t, dsn, ConnOptions{Lease: patience}), k.open(t, dsn, ConnOptions{})
		bystander := acquire(t, l, "bystander")
		for _, name := range names {
			lease := acquire(t, l, name)
			if err := try(t, other, name); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s: %q while it is held: %v, want ErrHeld", k.name, name, err)
			}
			if h := inspect(t, other, name).Holder; h == nil || h.Who != ownerColumn(name) {
				t.Errorf("%s: the holder of %q: %+v", k.name, name, h)
			}
			release(t, lease)
			insist(t, func(ctx context.Context) (lock.Fence, error) { return other.Evict(ctx, name) })
		}
		if err := try(t, other, "bystander"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("%s: the key of another: %v, want ErrHeld", k.name, err)
		}
		release(t, bystander)
	}
}

// Schema makes the tables that the migrations make, and they are enough for every lock.
func TestSchema(t *testing.T) {
	t.Parallel()
	migrated, dsn := pool(t, database(t), 1), servers.MariaDB(t)
	db := pool(t, dsn, 1)
	for range 2 { // the second time they exist
		for _, statement := range Schema() {
			execSQL(t, db, statement)
		}
	}
	for _, table := range []string{"locks", "lock_rows", "lock_fences"} {
		var name, want, got string
		if err := migrated.QueryRow("SHOW CREATE TABLE "+table).Scan(&name, &want); err != nil {
			t.Fatal(err)
		}
		if err := db.QueryRow("SHOW CREATE TABLE "+table).Scan(&name, &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	for _, k := range all {
		release(t, acquire(t, k.open(t, dsn, ConnOptions{}), "k"))
	}
}

// An error about a missing table says what creates it, and not that the server is down. No lock is left.
func TestAMissingTable(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := servers.MariaDB(t)
		l := k.open(t, dsn, ConnOptions{})
		_, inspected := l.Inspect(t.Context(), "k")
		_, listed := l.Keys(t.Context())
		for doing, err := range map[string]error{"acquire": try(t, l, "k"), "inspect": inspected, "list": listed} {
			var down *lock.DownError // what an instance tells its clients
			if !errors.As(err, &down) || down.Reason != "no-schema" {
				t.Fatalf("%s: %v has no reason for clients", doing, err)
			}
			if s := err.Error(); !strings.Contains(s, "mysqllock.Schema") || strings.Contains(s, "down") {
				t.Errorf("%s: %v does not say what makes the tables, or calls the server down", doing, err)
			}
		}
		db := pool(t, dsn, 1)
		for _, statement := range Schema() {
			execSQL(t, db, statement)
		}
		release(t, acquire(t, l, "k"))
	})
}

// One of the notes with which this project began has a table of locks with a blank inside a name: docs/notes.md, 18.
func TestABlankInsideAName(t *testing.T) {
	t.Parallel()
	db := pool(t, database(t), 1)
	const syntax, unknownType = 1064, 4161 // MariaDB takes the rest of the name for a type
	_, err := db.ExecContext(t.Context(), `CREATE TABLE method_locks (id INT PRIMARY KEY,
		method_ name VARCHAR(64) NOT NULL, UNIQUE (method_name))`)
	if n := mysqlerr.Number(err); n != syntax && n != unknownType {
		t.Errorf("with a blank: %v, want error %d or %d", err, syntax, unknownType)
	}
	execSQL(t, db, `CREATE TABLE method_locks (id INT PRIMARY KEY,
		method_name VARCHAR(64) NOT NULL, UNIQUE (method_name))`)
}
