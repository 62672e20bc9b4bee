package mysqllock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
)

// The end of the connection is the end of the lock: the next one gets it at once, and the holder is told soon.
func TestTheHoldersConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		quickest := time.Hour
		for range 3 { // a busy computer may be late
			if quickest = min(quickest, killHolder(t, k)); quickest <= beatEvery/2 {
				return
			}
		}
		t.Errorf("the loss was signalled after %v: it was not heard of before the next ping", quickest)
	})
}

// killHolder kills the connection of a holder, and returns how long it took until the holder was told.
func killHolder(t *testing.T, k kind) time.Duration {
	t.Helper()
	dsn := database(t)
	db := pool(t, dsn, 2)
	l := k.open(t, dsn, 0)
	release(t, acquire(t, l, "k"))
	id := connection(t, l)
	held := acquire(t, l, "k")
	got := make(chan *lock.Lease, 1)
	waiter := k.open(t, dsn, 0)
	go func() {
		lease, err := waiter.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	eventually(t, soon, "somebody waits", func() bool { return waiting(t, db) == 1 })
	killed := time.Now()
	execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
	if err := loss(t, held); !errors.Is(err, lock.ErrExpired) || !strings.Contains(err.Error(), "connection") {
		t.Errorf("loss: %v, want ErrExpired because of the connection", err)
	}
	told := time.Since(killed)
	next := <-got
	if next == nil {
		t.FailNow()
	}
	if next.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), held.Fence())
	}
	if err := held.Release(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("release: %v, want ErrLost", err)
	}
	if _, err := waiter.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("the release of a lost lease let others in: %v", err)
	}
	release(t, next)
	return told
}

// A connection that was ended while it was idle is nobody's loss and nobody's failure.
func TestAnIdleConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, 0)
		for range 10 {
			release(t, acquire(t, l, "k"))
			id := connection(t, l)
			execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
			lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			if err != nil {
				t.Fatalf("acquire: %v", err)
			}
			release(t, lease)
			if connection(t, l) == id {
				t.Fatal("it was not killed")
			}
		}
	})
}

// Who loses the key between the lock and its fence, and draws the fence after the next holder, must not pass for the later one.
func TestAFenceThatIsDrawnTooLate(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		p := newProxy(t, addr(dsn))
		l, other := k.open(t, via(dsn, p), 0), k.open(t, dsn, 0)
		release(t, acquire(t, l, "k"))
		id := connection(t, l)
		var next *lock.Lease
		p.obey(func(_ int, request string) fate {
			if next == nil && strings.Contains(request, "LAST_INSERT_ID") {
				execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
				next = acquire(t, other, "k")
			}
			return pass
		})
		if late, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); err == nil {
			t.Errorf("got a lease with fence %d, the holder has %d", late.Fence(), next.Fence())
		} else if !errors.Is(err, lock.ErrHeld) {
			t.Errorf("err = %v, want ErrHeld", err)
		}
		p.obey(nil)
	})
}
