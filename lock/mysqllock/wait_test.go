package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A waiter that gives up is out of the server's queue when Acquire returns, and its connection is fit for the next.
func TestAWaiterThatGivesUpLeavesTheQueue(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		held := acquire(t, k.open(t, dsn, 0), "k")
		waiter := k.open(t, dsn, 0)
		for round := range 3 {
			reason := errors.New("the client went away")
			ctx, leave := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() {
				lease, err := waiter.Acquire(ctx, "k")
				if err == nil {
					_ = lease.Release()
				}
				ended <- err
			}()
			eventually(t, 5*time.Second, "it waits", func() bool { return waiting(t, db) == 1 })
			left := time.Now()
			leave(reason)
			if err := <-ended; !errors.Is(err, lock.ErrHeld) || !errors.Is(err, reason) {
				t.Errorf("err = %v, want ErrHeld because %v", err, reason)
			}
			if took := time.Since(left); took > time.Second {
				t.Errorf("leaving took %v", took)
			}
			if n := waiting(t, db); n != 0 {
				t.Errorf("%d still wait", n)
			}
			if k.name == forUpdate.name {
				eventually(t, time.Second, "the holder's is the only transaction", func() bool { return transactions(t, db) == 1 })
			}
			if n := count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"); round > 0 && n > 5 {
				t.Errorf("%d connections", n)
			}
		}
		release(t, held)
		free(t, waiter, "k")
	})
}

// What the server may still do after the client has given up is undone, although a lease is a minute.
func TestAClaimThatComesLateIsUndone(t *testing.T) {
	dsn := database(t)
	db := pool(t, dsn, 2)
	l := table.open(t, dsn, time.Minute)
	release(t, acquire(t, l, "k"))
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT * FROM locks WHERE name = 'k' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want ErrDown: there was no answer", err)
	}
	if err := tx.Commit(); err != nil { // and the statement that nobody waits for takes the row
		t.Fatal(err)
	}
	free(t, table.open(t, dsn, 0), "k")
}

// The same, when the server has said already that there is nothing to undo.
func TestAClaimThatComesAfterItsReleaseIsUndone(t *testing.T) {
	dsn := database(t)
	p := newProxy(t, addr(dsn))
	l := table.open(t, via(dsn, p), time.Minute)
	release(t, acquire(t, l, "k"))
	p.at(1, late)
	if _, err := l.Acquire(lock.NoWait(t.Context()), "k"); !errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want ErrDown: there was no answer", err)
	}
	db := pool(t, dsn, 1)
	before := count(t, db, "SELECT fence FROM locks")
	close(p.onward)
	eventually(t, 5*time.Second, "the row is taken", func() bool { return count(t, db, "SELECT fence FROM locks") > before })
	free(t, table.open(t, dsn, 0), "k")
}

// A pool that is too small makes callers wait for as long as they want to, and stalls nobody for ever.
func TestTheConnectionsAreUsedUp(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.make(pool(t, dsn, 2), 0) // one connection to hold, one for fences
		t.Cleanup(func() { l.Close() })
		held := acquire(t, l, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := l.Acquire(ctx, "b")
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connections") {
			t.Errorf("err = %v, want ErrHeld, DeadlineExceeded and the reason", err)
		}
		if _, err := l.Acquire(lock.NoWait(t.Context()), "b"); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("err = %v, want ErrHeld", err)
		}
		got := make(chan error, 8)
		for i := range cap(got) {
			go func() {
				lease, err := l.Acquire(t.Context(), keyN(i))
				if err == nil {
					err = lease.Release()
				}
				got <- err
			}()
		}
		release(t, held)
		for range cap(got) {
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("they stall")
			}
		}
	})
}

// Somebody else has taken the connections that fences need: that is an error soon, and no lock is left.
func TestNoConnectionForTheFence(t *testing.T) {
	dsn := database(t)
	db := pool(t, dsn, 3)
	l := NewForUpdate(db, ConnOptions{MaxConns: 2})
	t.Cleanup(func() { l.Close() })
	release(t, acquire(t, l, "k")) // has one connection now
	for range 2 {
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	asked := time.Now()
	if _, err := l.Acquire(t.Context(), "k"); !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "pool") {
		t.Errorf("err = %v, want ErrDown because of the pool", err)
	}
	if took := time.Since(asked); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	free(t, forUpdate.open(t, dsn, 0), "k")
}

// 30 callers for one key need one connection of this process, and somebody with another key finds one free.
func TestAHotKeyLeavesConnectionsFree(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.open(t, dsn, 0) // 4 connections
		held := acquire(t, k.open(t, dsn, 0), "hot")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 30)
		for range cap(ended) {
			go func() {
				_, err := l.Acquire(ctx, "hot")
				ended <- err
			}()
		}
		db := pool(t, dsn, 1)
		eventually(t, 5*time.Second, "somebody waits", func() bool { return waiting(t, db) == 1 })
		if lease, err := l.Acquire(lock.NoWait(t.Context()), "cold"); err != nil {
			t.Errorf("another key: %v", err)
		} else {
			release(t, lease)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, lock.ErrHeld) {
				t.Errorf("err = %v, want ErrHeld", err)
			}
		}
		release(t, held)
	})
}

// A lease outlasts its time limit as long as its holder lives, and not the maximum: then others get in, also from the same
// process.
func TestRenewalAndMaximumHold(t *testing.T) {
	const lease, most = time.Second, 4 * time.Second
	for _, k := range []kind{
		{"table", func(db *sql.DB, _ time.Duration) locker {
			return NewTable(db, TableOptions{Lease: lease, MaxHold: most})
		}},
		{"for update", func(db *sql.DB, _ time.Duration) locker {
			return NewForUpdate(db, ConnOptions{Lease: lease, MaxHold: most})
		}},
		{"get lock", func(db *sql.DB, _ time.Duration) locker {
			return NewGetLock(db, ConnOptions{Lease: lease, MaxHold: most})
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			l := k.open(t, dsn, 0)
			began := time.Now()
			held := acquire(t, l, "k") // and its holder hangs
			if err := loss(t, held); !errors.Is(err, lock.ErrExpired) {
				t.Errorf("loss: %v, want ErrExpired", err)
			}
			if lasted := time.Since(began); lasted < most-lease {
				t.Errorf("lost after %v, want %v: it was not renewed", lasted, most)
			}
			next := acquire(t, l, "k")
			if lasted := time.Since(began); lasted > most+3*lease {
				t.Errorf("followed after %v", lasted)
			}
			if next.Fence() <= held.Fence() {
				t.Errorf("fence %d after %d", next.Fence(), held.Fence())
			}
		})
	}
}

// A long wait does not eat up the lease.
func TestALeaseBeginsWhenTheWaitEnds(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		const lease = time.Second
		dsn := database(t)
		held := acquire(t, k.open(t, dsn, 0), "k")
		waiter := k.open(t, dsn, lease)
		time.AfterFunc(2500*time.Millisecond, func() { _ = held.Release() }) // longer than two leases
		next := acquire(t, waiter, "k")
		select {
		case <-next.Done():
			t.Errorf("lost: %v", next.Err())
		case <-time.After(2 * lease):
		}
		release(t, next)
	})
}

// Whoever takes or deletes the row under its holder is noticed at the next renewal, and his row is left as it is.
func TestTheRowIsTakenAway(t *testing.T) {
	for name, row := range map[string]struct {
		statement string
		want      error
	}{
		"deleted": {"DELETE FROM locks", lock.ErrExpired},
		"expired": {"UPDATE locks SET expires_at = '1970-01-01'", lock.ErrExpired},
		"freed":   {"UPDATE locks SET token = '', expires_at = '1970-01-01'", lock.ErrExpired},
		"taken":   {"UPDATE locks SET token = 'another', expires_at = expires_at + INTERVAL 1 HOUR", lock.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := database(t)
			db := pool(t, dsn, 2)
			lease := acquire(t, table.open(t, dsn, time.Second), "k")
			execSQL(t, db, row.statement)
			if err := loss(t, lease); !errors.Is(err, row.want) {
				t.Errorf("loss: %v, want %v", err, row.want)
			}
			if err := lease.Release(); !errors.Is(err, row.want) {
				t.Errorf("release: %v, want %v", err, row.want)
			}
			if n := count(t, db, "SELECT COUNT(*) FROM locks WHERE token NOT IN ('', 'another')"); n != 0 {
				t.Error("the release left a token")
			}
			if n := count(t, db, "SELECT COUNT(*) FROM locks WHERE token = 'another'"); (n == 1) != (name == "taken") {
				t.Errorf("%d rows of another", n)
			}
		})
	}
}
