package mysqllock

import (
	"context"
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
				lease, err := waiter.Acquire(ctx, "k", lock.Options{})
				if err == nil {
					_ = lease.Release()
				}
				ended <- err
			}()
			eventually(t, soon, "it waits", func() bool { return waiting(t, db) == 1 })
			left := time.Now()
			leave(reason)
			if err := <-ended; !errors.Is(err, lock.ErrHeld) || !errors.Is(err, reason) {
				t.Errorf("err = %v, want ErrHeld because %v", err, reason)
			}
			if took := time.Since(left); took > soon {
				t.Errorf("leaving took %v", took)
			}
			if n := waiting(t, db); n != 0 {
				t.Errorf("%d still wait", n)
			}
			if k.name == forUpdate.name {
				eventually(t, soon, "the holder's is the only transaction", func() bool { return transactions(t, db) == 1 })
			}
			if n := count(t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"); round > 0 && n > 5 {
				t.Errorf("%d connections", n)
			}
		}
		release(t, held)
		free(t, waiter, "k")
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
	if _, err := l.Acquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "pool") {
		t.Errorf("err = %v, want ErrDown because of the pool", err)
	}
	if took := time.Since(asked); took > soon {
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
				_, err := l.Acquire(ctx, "hot", lock.Options{})
				ended <- err
			}()
		}
		db := pool(t, dsn, 1)
		eventually(t, soon, "somebody waits", func() bool { return waiting(t, db) == 1 })
		if lease, err := l.Acquire(t.Context(), "cold", lock.Options{TryOnce: true}); err != nil {
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
