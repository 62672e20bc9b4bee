package mysqllock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// What the server may still do after the client has given up is undone, although a lease is a minute.
func TestAClaimThatComesLateIsUndone(t *testing.T) {
	t.Parallel()
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
	if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want ErrDown: there was no answer", err)
	}
	if err := tx.Commit(); err != nil { // and the statement that nobody waits for takes the row
		t.Fatal(err)
	}
	free(t, table.open(t, dsn, 0), "k")
}

// The same, when the server has said already that there is nothing to undo.
func TestAClaimThatComesAfterItsReleaseIsUndone(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, addr(dsn))
	l := table.open(t, via(dsn, p), time.Minute)
	release(t, acquire(t, l, "k"))
	claim := p.at(1, wire.Hold)
	if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want ErrDown: there was no answer", err)
	}
	db := pool(t, dsn, 1)
	before := count(t, db, "SELECT fence FROM locks")
	claim.Release()
	eventually(t, "the row is taken", func() bool { return count(t, db, "SELECT fence FROM locks") > before })
	free(t, table.open(t, dsn, 0), "k")
}

// A release that finds its row taken by another, and then gets no reply, has not succeeded.
func TestAReleaseThatCannotReadTheRow(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p := newProxy(t, addr(dsn))
	lease := acquire(t, table.open(t, via(dsn, p), time.Minute), "k")
	if _, err := pool(t, dsn, 1).Exec("UPDATE locks SET token = 'another'"); err != nil {
		t.Fatal(err)
	}
	read := p.Set(wire.Trap{Match: wire.Contains("SELECT token, who"), Do: wire.Cut})
	if err := lease.Release(); err == nil {
		t.Error("no error")
	}
	<-read.Sprung()
}

// A grant whose answer comes when the lease is over is none: another has the key by then.
func TestALateAnswerIsNoLease(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	p, err := wire.Listen(addr(dsn), wire.MySQL())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	through := strings.Replace(dsn, addr(dsn), p.Addr(), 1)
	for range 3 { // a busy computer may be so late that there is no answer at all
		slow, other := table.open(t, through, 300*time.Millisecond), table.open(t, dsn, time.Minute)
		release(t, acquire(t, slow, "k"))
		answer := p.Set(wire.Trap{Match: wire.Contains("UPDATE locks"), Do: wire.HoldReply})
		got := make(chan error, 1)
		go func() {
			_, err := slow.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			got <- err
		}()
		<-answer.Sprung()
		holder := acquire(t, other, "k") // for whom the first lease has run out
		answer.Release()
		err := <-got
		release(t, holder)
		if errors.Is(err, lock.ErrDown) {
			continue
		}
		if !errors.Is(err, lock.ErrHeld) {
			t.Errorf("err = %v, want ErrHeld: another holds it, and nothing is left of that lease", err)
		}
		return
	}
}

// Without an expiry nobody follows a holder that crashed, which is what the option is there to show, until the row is
// cleared by hand.
func TestWithoutExpiryACrashIsForEver(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := pool(t, dsn, 2)
	crashed := acquire(t, noExpiry.open(t, dsn, 0), "k") // it does not renew, and is not heard of again
	l := table.open(t, dsn, 0)
	_, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Remaining != 0 {
		t.Errorf("err = %v, want a HeldError without an end", err)
	}
	if years := count(
		t, db, "SELECT TIMESTAMPDIFF(YEAR, UTC_TIMESTAMP(), expires_at) FROM locks WHERE name = 'k'",
	); years < 100 {
		t.Errorf("runs out in %d years", years)
	}
	execSQL(t, db, "DELETE FROM locks WHERE name = 'k'")
	if next := acquire(t, l, "k"); next.Fence() <= crashed.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), crashed.Fence())
	}
}
