package mysqllock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// What the server may still do after the client has given up is undone, although a lease is a minute: the claim waits
// for the row when it is released, and is executed afterwards.
func TestAClaimThatComesLateIsUndone(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := pool(t, dsn, 2)
	l := table.open(t, dsn, ConnOptions{Lease: patience})
	release(t, acquire(t, l, "k"))
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("SELECT * FROM locks WHERE name = 'k' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if err := try(t, l, "k"); !errors.Is(err, lock.ErrDown) {
		t.Errorf("%v, want ErrDown: there was no answer", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), patience/2)
	defer cancel()
	if err := <-come(soon, table.open(t, dsn, ConnOptions{}), "k", ""); err != nil {
		t.Errorf("the key does not become free: %v", err)
	}
}

// A grant whose answer comes when the lease is over is none, because another has the key by then: it is given back.
func TestALateAnswerIsNoLease(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, dsn)
	slow, other := table.open(t, p.dsn, ConnOptions{Lease: 300 * time.Millisecond}), table.open(t, dsn, ConnOptions{})
	for { // a busy computer may be so late that there is no answer at all
		release(t, acquire(t, slow, "k"))
		answer := p.Set(wire.Trap{Match: wire.Contains("UPDATE locks"), Do: wire.HoldReply})
		came := make(chan error, 1)
		go func() { came <- try(t, slow, "k") }()
		<-answer.Sprung()
		holder := acquire(t, other, "k") // for whom the first lease has run out
		answer.Release()
		err := <-came
		release(t, holder)
		if errors.Is(err, lock.ErrHeld) {
			return
		}
		if !errors.Is(err, lock.ErrDown) {
			t.Fatalf("%v, want ErrHeld: another holds it, and nothing is left of that lease", err)
		}
	}
}

// Whoever takes the row under its holder leaves it nothing to release, and the release says why.
func TestTheRowIsTakenAway(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := pool(t, dsn, 1)
	p := newProxy(t, dsn)
	l := table.open(t, p.dsn, ConnOptions{Lease: patience})
	for statement, want := range map[string]error{
		"DELETE FROM locks": lock.ErrExpired,
		"UPDATE locks SET token = '', expires_at = '1970-01-01'":                        lock.ErrExpired,
		"UPDATE locks SET token = 'another', expires_at = expires_at + INTERVAL 1 HOUR": lock.ErrTaken,
	} {
		lease := acquire(t, l, "k")
		execSQL(t, db, statement)
		if err := lease.Release(); !errors.Is(err, want) || !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: %v, want %v", statement, err, want)
		}
		execSQL(t, db, "DELETE FROM locks")
	}
	lease := acquire(t, l, "k")
	execSQL(t, db, "UPDATE locks SET token = 'another'")
	read := p.Set(wire.Trap{Match: wire.Contains("SELECT token, who"), Do: wire.Cut})
	if err := lease.Release(); !errors.Is(err, lock.ErrDown) {
		t.Errorf("a release that cannot read who has the row: %v, want ErrDown", err)
	}
	<-read.Sprung()
}

// One who polls for a key whose row somebody has deleted gets it: there is nothing to update, so the row is made again.
func TestAPollerOutlivesItsRow(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	l := table.open(t, dsn, ConnOptions{Lease: patience})
	p := newProxy(t, dsn)
	acquire(t, l, "k")
	came := come(t.Context(), table.open(t, p.dsn, ConnOptions{}), "k", "")
	eventually(t, "it polls", func() bool { return len(p.during(func() { <-time.After(100 * time.Millisecond) })) > 3 })
	execSQL(t, pool(t, dsn, 1), "DELETE FROM locks")
	if err := <-came; err != nil {
		t.Errorf("it polls for ever: %v", err)
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
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = <-come(short, l, "k", "")
	noCapacity(t, "a wait", err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait: %v, want why it ended, too", err)
	}
	noCapacity(t, "a try", try(t, l, "k"))
	before := db.Stats().WaitCount
	came := come(t.Context(), l, "k", "")
	eventually(t, "it asks for a connection again", func() bool { return db.Stats().WaitCount > before+1 })
	_ = conn.Close()
	if err := <-came; err != nil {
		t.Errorf("a waiter: %v", err)
	}
}
