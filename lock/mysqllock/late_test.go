package mysqllock

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
)

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
	eventually(t, soon, "the row is taken", func() bool { return count(t, db, "SELECT fence FROM locks") > before })
	free(t, table.open(t, dsn, 0), "k")
}
