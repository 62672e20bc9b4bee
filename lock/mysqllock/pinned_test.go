package mysqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// few makes a lock that has connections for that many keys at a time.
func (k kind) few(t *testing.T, dsn string, keys int) locker {
	t.Helper()
	return limited(t, dsn, keys+2, keys)[map[string]int{forUpdate.name: 0, getLock.name: 1}[k.name]]
}

// limited makes the locks of this package that keep a connection on one pool, as an instance does.
func limited(t *testing.T, dsn string, most, keys int) []locker {
	t.Helper()
	db := pool(t, dsn, most)
	o := ConnOptions{MaxConns: keys}
	list := []locker{NewForUpdate(db, o), NewGetLock(db, o)}
	for _, l := range list {
		t.Cleanup(func() { l.Close() })
	}
	return list
}

// noCapacity wants an error that says nothing of a holder.
func noCapacity(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, lock.ErrNoCapacity) || errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrDown) {
		t.Errorf("%s: %v, want ErrNoCapacity and neither ErrHeld nor ErrDown", what, err)
	}
	if err != nil && !strings.Contains(err.Error(), "connections") {
		t.Errorf("%s: %v, which does not say what there is too little of", what, err)
	}
	if err != nil && !strings.HasPrefix(err.Error(), `acquire lock "`) {
		t.Errorf("%s: %v, which does not name the lock", what, err)
	}
}

// As many keys are held as there are connections for. Who asks for another one is told that, and not that it is held,
// which nobody knows; who waits gets it as soon as one of them is given back.
func TestMoreKeysThanConnections(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		l := k.few(t, dsn, 3)
		var stuck []*lock.Lease
		for i := range 3 {
			stuck = append(stuck, acquire(t, l, keyN(i)))
		}
		_, err := l.Acquire(t.Context(), "free", lock.Options{TryOnce: true})
		noCapacity(t, "a try", err)
		reason := errors.New("that is long enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, reason)
		defer cancel()
		_, err = l.Acquire(ctx, "free", lock.Options{})
		noCapacity(t, "a wait", err)
		if !errors.Is(err, reason) {
			t.Errorf("a wait: %v, want why it ended, too", err)
		}
		_, err = l.Acquire(t.Context(), keyN(0), lock.Options{TryOnce: true})
		if !errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrNoCapacity) {
			t.Errorf("a key that is held here: %v, want ErrHeld", err)
		}
		got := make(chan error, 8)
		for range cap(got) {
			go func() {
				lease, err := l.Acquire(t.Context(), "free", lock.Options{})
				if err == nil {
					err = lease.Release()
				}
				got <- err
			}()
		}
		select {
		case err := <-got:
			t.Fatalf("got a connection that is in use: %v", err)
		case <-time.After(100 * time.Millisecond):
		}
		release(t, stuck[0])
		for range cap(got) {
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("a connection is free, and they stall")
			}
		}
	})
}

// Those who wait for keys that others do not let go of leave room to those who ask for another key: however many they
// are, that one is had at once. When the keys are free, each of those who wait gets its own.
func TestStuckKeysLeaveRoom(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		const stuck = 9
		others := k.few(t, dsn, stuck)
		var held []*lock.Lease
		for i := range stuck {
			held = append(held, acquire(t, others, keyN(i)))
		}
		l := k.few(t, dsn, 4)
		got := make(chan error, stuck)
		for i := range stuck {
			go func() {
				lease, err := l.Acquire(t.Context(), keyN(i), lock.Options{})
				if err == nil {
					err = lease.Release()
				}
				got <- err
			}()
		}
		db := pool(t, dsn, 1)
		eventually(t, "half of the connections wait at the server", func() bool { return waiting(t, db) >= 2 })
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			lease, err := l.Acquire(ctx, "free", lock.Options{})
			cancel()
			if err != nil {
				t.Fatalf("a free key: %v", err)
			}
			release(t, lease)
		}
		for _, lease := range held {
			release(t, lease)
		}
		for range stuck {
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("the keys are free, and they stall")
			}
		}
	})
}

// With a single connection nobody waits at the server, so that a wait for a stuck key does not keep it.
func TestAWaitDoesNotKeepTheOnlyConnection(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		held := acquire(t, k.open(t, dsn, 0), "stuck")
		l := k.few(t, dsn, 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, "stuck", lock.Options{})
			ended <- err
		}()
		for range 5 {
			release(t, acquire(t, l, "free"))
		}
		eventually(t, "it has seen that the key is held", func() bool {
			cancel()
			err := <-ended
			if errors.Is(err, lock.ErrHeld) && errors.Is(err, context.Canceled) {
				return true
			}
			// It ended while it waited for the connection, which says nothing.
			noCapacity(t, "a wait", err)
			ctx, cancel = context.WithCancel(t.Context())
			go func() {
				_, err := l.Acquire(ctx, "stuck", lock.Options{})
				ended <- err
			}()
			_ = lock.Sleep(ctx, 200*time.Millisecond)
			return false
		})
		release(t, held)
		free(t, l, "stuck")
	})
}

// Both locks on the pool of one instance, every key taken, and many who wait: what is needed to give a key back is
// always there.
func TestAFullPoolLetsHoldersRelease(t *testing.T) {
	t.Parallel()
	locks := limited(t, database(t), 5, 2)
	for round := range 3 {
		var held []*lock.Lease
		for _, l := range locks {
			for i := range 2 {
				held = append(held, acquire(t, l, keyN(i)))
			}
		}
		got := make(chan error, 20)
		for i := range cap(got) {
			l, key := locks[i%2], keyN(i/2)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				lease, err := l.Acquire(ctx, key, lock.Options{})
				if err == nil {
					err = lease.Release()
				}
				got <- err
			}()
		}
		for _, lease := range held {
			release(t, lease)
		}
		for range cap(got) {
			if err := <-got; err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
	}
}

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
			eventually(t, "it waits", func() bool { return waiting(t, db) == 1 })
			leave(reason)
			if err := <-ended; !errors.Is(err, lock.ErrHeld) || !errors.Is(err, reason) {
				t.Errorf("err = %v, want ErrHeld because %v", err, reason)
			}
			if n := waiting(t, db); n != 0 {
				t.Errorf("%d still wait", n)
			}
			if k.name == forUpdate.name {
				eventually(
					t, "the holder's is the only transaction",
					func() bool { return transactions(t, db) == 1 },
				)
			}
			if n := count(
				t, db, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()",
			); round > 0 &&
				n > 5 {
				t.Errorf("%d connections", n)
			}
		}
		release(t, held)
		free(t, waiter, "k")
	})
}

// Somebody else has taken the connections that fences need: that is an error soon, and no lock is left.
func TestNoConnectionForTheFence(t *testing.T) {
	t.Parallel()
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
	_, err := l.Acquire(t.Context(), "k", lock.Options{})
	noCapacity(t, "a fence", err)
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
		eventually(t, "somebody waits", func() bool { return waiting(t, db) == 1 })
		if lease, err := l.Acquire(t.Context(), "cold", lock.Options{TryOnce: true}); err != nil {
			t.Errorf("another key: %v", err)
		} else {
			release(t, lease)
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, context.Canceled) && !errors.Is(err, lock.ErrDown) {
				t.Errorf("err = %v, want why it ended, or that a busy server did not answer", err)
			}
		}
		release(t, held)
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
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, 0)
		pinnedOf(l).primitive = deaf{pinnedOf(l).primitive}
		id := warm(t, l)
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
		eventually(t, "somebody waits", func() bool { return waiting(t, db) == 1 })
		execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
		if err := loss(t, held); !errors.Is(err, lock.ErrExpired) || !strings.Contains(err.Error(), "connection") {
			t.Errorf("loss: %v, want ErrExpired because of the connection", err)
		}
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
	})
}

// A connection that was ended while it was idle is nobody's loss and nobody's failure.
func TestAnIdleConnectionIsKilled(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		l := k.open(t, dsn, 0)
		for range 10 {
			id := warm(t, l)
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

// Who loses the key between the lock and its fence, and draws the fence after the next holder, must not pass for the
// later one.
func TestAFenceThatIsDrawnTooLate(t *testing.T) {
	each(t, pins, func(t *testing.T, k kind) {
		dsn := database(t)
		db := pool(t, dsn, 2)
		p := newProxy(t, addr(dsn))
		l, other := k.open(t, via(dsn, p), 0), k.open(t, dsn, 0)
		id := warm(t, l)
		fence := p.Set(wire.Trap{Match: wire.Contains("LAST_INSERT_ID"), Do: wire.Hold})
		var late *lock.Lease
		ended := make(chan error, 1)
		go func() {
			var err error
			late, err = l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			ended <- err
		}()
		<-fence.Sprung()
		p.Silence(wire.ToClient) // or it would hear of the end before the next one has the key
		execSQL(t, db, fmt.Sprintf("KILL CONNECTION %d", id))
		next := acquire(t, other, "k")
		fence.Release()
		p.Silence()
		if err := <-ended; err == nil {
			t.Errorf("got a lease with fence %d, the holder has %d", late.Fence(), next.Fence())
		} else if !errors.Is(err, lock.ErrHeld) && !errors.Is(err, lock.ErrDown) { // a busy server may not answer
			t.Errorf("err = %v, want ErrHeld", err)
		}
	})
}
