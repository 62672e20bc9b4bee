package mysqllock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
)

// An option that makes no sense is named by the first Acquire, which asks no server.
func TestWrongOptions(t *testing.T) {
	db := pool(t, "root@tcp(127.0.0.1:1)/stock", 4) // nobody listens there
	for _, row := range []struct {
		option string
		l      locker
	}{
		{"Lease", NewTable(db, TableOptions{Lease: -time.Second})},
		{"MaxHold", NewTable(db, TableOptions{MaxHold: -1})},
		{"MinBackoff", NewTable(db, TableOptions{MinBackoff: -time.Millisecond})},
		{"MaxBackoff", NewTable(db, TableOptions{MaxBackoff: -time.Millisecond})},
		{"Lease", NewGetLock(db, ConnOptions{Lease: -time.Second})},
		{"MaxHold", NewForUpdate(db, ConnOptions{MaxHold: -time.Second})},
		{"MaxConns", NewForUpdate(db, ConnOptions{MaxConns: -1})},
	} {
		option, l := row.option, row.l
		_, err := l.Acquire(t.Context(), "k", lock.Options{})
		if !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "option "+option+" ") {
			t.Errorf("%s: %v", option, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A pool without a free connection is no server that is down: a waiter waits on, and its error says what was missing.
func TestThePoolIsFull(t *testing.T) {
	t.Parallel()
	db := pool(t, database(t), 1)
	l := NewTable(db, TableOptions{})
	t.Cleanup(func() { l.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = l.Acquire(ctx, "k", lock.Options{})
	noCapacity(t, "a wait", err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait: %v, want why it ended, too", err)
	}
	_, err = l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
	noCapacity(t, "a try", err)

	got := make(chan error, 1)
	before := db.Stats().WaitCount
	go func() {
		lease, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	eventually(t, "it asks for a connection again", func() bool { return db.Stats().WaitCount > before+1 })
	_ = conn.Close()
	if err := <-got; err != nil {
		t.Errorf("a waiter: %v", err)
	}
}
