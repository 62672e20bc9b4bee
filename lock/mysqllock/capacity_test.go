package mysqllock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
			case <-time.After(30 * time.Second):
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
		eventually(t, soon, "half of the connections wait at the server", func() bool { return waiting(t, db) >= 2 })
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
			case <-time.After(30 * time.Second):
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
		eventually(t, soon, "it has seen that the key is held", func() bool {
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
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				lease, err := l.Acquire(ctx, key, lock.Options{})
				if err == nil {
					err = lease.Release()
				}
				got <- err
			}()
		}
		for _, lease := range held {
			asked := time.Now()
			release(t, lease)
			if took := time.Since(asked); took > lock.ReleaseTimeout {
				t.Errorf("round %d: a release took %v", round, took)
			}
		}
		for range cap(got) {
			if err := <-got; err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
	}
}
