package mysqllock

import (
	"context"
	"testing"
	"time"

	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
)

// One who polls for a key whose row somebody has deleted gets it: there is nothing to update, so the row is made again.
func TestAPollerOutlivesItsRow(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	acquire(t, table.open(t, dsn, ConnOptions{Lease: patience}), "k")
	p := newProxy(t, dsn)
	l := table.open(t, p.dsn, ConnOptions{})
	came := make(chan struct{})
	go func() {
		defer close(came)
		locktest.Release(t, acquire(t, l, "k")) // which fails if it polls for ever
	}()
	locktest.Eventually(t, "it polls", func() bool { return p.Count(wire.ToServer) > 6 })
	execSQL(t, pool(t, dsn, 1), "DELETE FROM locks")
	<-came
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
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	noCapacity(t, <-come(short, l, "k", ""), context.DeadlineExceeded)
	noCapacity(t, locktest.Try(t, l, "k"), nil)
	before := db.Stats().WaitCount
	came := come(t.Context(), l, "k", "")
	locktest.Eventually(t, "it asks again", func() bool { return db.Stats().WaitCount > before+1 })
	_ = conn.Close()
	if err := <-came; err != nil {
		t.Errorf("a waiter: %v", err)
	}
}
