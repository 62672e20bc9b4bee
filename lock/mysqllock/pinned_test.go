package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
)

// noCapacity tries and waits for a key. The errors must say nothing of a holder, but why the wait ended.
func noCapacity(t *testing.T, l lock.Locker, key string) {
	t.Helper()
	reason := errors.New("that is long enough")
	short, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, reason)
	defer cancel()
	waited := <-locktest.Come(short, l, key, "")
	for _, err := range []error{locktest.Try(t, l, key), waited} {
		if !errors.Is(err, lock.ErrNoCapacity) || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrDown) ||
			!strings.HasPrefix(err.Error(), `acquire lock "`) {
			t.Errorf("%v, want ErrNoCapacity, and neither ErrHeld nor ErrDown", err)
		}
	}
	if !errors.Is(waited, reason) {
		t.Errorf("%v, want that it ended with %v", waited, reason)
	}
}

// As many keys are held as there are connections for, 16 by default, although the pool has no limit: it does not grow
// with the callers. Who asks for another key is told that, and not that it is held, which nobody knows; who waits gets
// it as soon as a connection is given back. 30 callers for one key need one. An abandoned lease gives its own back.
func TestMoreKeysThanConnections(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		db := pool(t, database(t), 0)
		l := k.make(db, ConnOptions{Lease: 4 * time.Second})
		t.Cleanup(func() { l.Close() })
		var stuck []*lock.Lease
		for i := range 16 {
			stuck = append(stuck, acquire(t, l, fmt.Sprint("held-", i)))
		}
		noCapacity(t, l, "free")
		if err := locktest.Try(t, l, "held-1"); !errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrNoCapacity) {
			t.Errorf("a key that is held here: %v, want ErrHeld", err)
		}
		var came []<-chan error
		for i := range 60 {
			came = append(came, locktest.Come(t.Context(), l, []string{"free", fmt.Sprint("key-", i)}[i%2], ""))
		}
		stuck[0].Abandon()
		succeed(t, came...)
		if n := db.Stats().OpenConnections; n > 2*16 {
			t.Errorf("%d connections are open", n)
		}
	})
}

// Those who wait for keys that others do not let go of leave room to those who ask for another key: however many they
// are, that one is had. With a single connection nobody waits at the server. When the keys are free, each of those who
// wait gets its own.
func TestStuckKeysLeaveRoom(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		for _, keys := range []int{1, 4} {
			dsn := database(t)
			others, l := k.open(t, dsn, ConnOptions{MaxConns: 9}), k.open(t, dsn, ConnOptions{MaxConns: keys})
			var held []*lock.Lease
			var came []<-chan error
			for i := range 9 {
				key := fmt.Sprint("key-", i)
				held = append(held, acquire(t, others, key))
				came = append(came, locktest.Come(t.Context(), l, key, ""))
			}
			for range 5 {
				locktest.Release(t, acquire(t, l, "free"))
			}
			for _, lease := range held {
				locktest.Release(t, lease)
			}
			succeed(t, came...)
		}
	})
}

// A deaf primitive is told that it holds the key, whatever the server says.
type deaf struct{ primitive }

func (deaf) holds(context.Context, *session, string) (bool, error) { return true, nil }

// The end of the connection is the end of the lock: the next one gets it at once, and the holder is told by its socket,
// before it asks the server.
func TestTheHoldersConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l, other := k.open(t, dsn, ConnOptions{MaxHold: patience / 2}), k.open(t, dsn, ConnOptions{})
		pinnedOf(l).primitive = deaf{pinnedOf(l).primitive}
		id := warm(t, l)
		held := acquire(t, l, "k")
		kill(t, dsn, id)
		acquire(t, other, "k")
		err := locktest.Loss(t, held)
		if !errors.Is(err, lock.ErrExpired) || !strings.Contains(err.Error(), "connection") {
			t.Errorf("loss: %v, want ErrExpired because of the connection", err)
		}
	})
}

// A connection that was ended while it was idle is nobody's loss and nobody's failure. One that has had a lock is not
// given back to the pool, where its next user would hold the lock unknowingly.
func TestAnIdleConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		db := pool(t, database(t), 4)
		l := k.make(db, ConnOptions{})
		for range 5 {
			execSQL(t, db, "KILL CONNECTION ?", warm(t, l))
			if err := locktest.Try(t, l, "k"); err != nil {
				t.Fatal(err)
			}
		}
		_ = l.Close()
		if n := db.Stats().OpenConnections; n > 1 { // for KILL and for fences
			t.Errorf("%d connections are open", n)
		}
	})
}

// Who loses the key between the lock and its fence, and draws the fence after the next holder, must not pass for the
// later one.
func TestAFenceThatIsDrawnTooLate(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, dsn)
		l := k.open(t, p.dsn, ConnOptions{})
		id := warm(t, l)
		fence := p.Set(wire.Trap{Match: wire.Contains("LAST_INSERT_ID"), Do: wire.Hold})
		came := make(chan error, 1)
		go func() { came <- locktest.Try(t, l, "k") }()
		<-fence.Sprung()
		p.Silence(wire.ToClient) // or it would hear of the end before the next one has the key
		kill(t, dsn, id)
		acquire(t, k.open(t, dsn, ConnOptions{}), "k")
		fence.Release()
		p.Silence()
		if err := <-came; !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrDown) { // the server may be busy
			t.Errorf("%v, want ErrHeld", err)
		}
	})
}

// Who waits is shown in order, by whichever process; those behind another of their own process by that process. A long
// wait does not use up the lease, which counts from the requests after it.
func TestAWaitAtTheServer(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		held := acquire(t, k.open(t, dsn, ConnOptions{}), "k")
		const lease = 2 * time.Second
		a, b := k.open(t, dsn, ConnOptions{Lease: lease}), k.open(t, dsn, ConnOptions{})
		want := []string{"a/1", "b ?*/ é/2", "b/3"} // the third one's place at the server is that of the second
		waiters := func(l locker) (who []string) {
			for _, w := range inspect(t, l, "k").Waiters {
				who = append(who, w.Who)
			}
			return who
		}
		var came []<-chan error
		for i, l := range []locker{a, b, b} {
			came = append(came, locktest.Come(t.Context(), l, "k", want[i]))
			locktest.Eventually(t, want[i]+" waits", func() bool {
				return slices.Equal(waiters(l), want[:i+1])
			})
		}
		if got := waiters(a); !slices.Equal(got, want[:2]) {
			t.Errorf("another process sees %q, want %q", got, want[:2])
		}
		time.Sleep(lease)
		locktest.Release(t, held)
		succeed(t, came...)
	})
}
