package locktest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
)

// This file has callers for the tests that a driver has beside the suite. They ask again when a busy computer keeps a
// server from answering in time, as a client would.

// patience is how long a driver's test waits for what must happen.
const patience = 2 * timeout

// Acquire waits for key. The end of the test releases the lease.
func Acquire(t testing.TB, l lock.Locker, key, owner string) *lock.Lease {
	t.Helper()
	lease, err := ask(t, l, key, owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lease.Release() })
	return lease
}

// Later waits for key in the background. If it does not get the key, the test fails, and the lease is of no lock.
func Later(t testing.TB, l lock.Locker, key, owner string) <-chan *lock.Lease {
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := ask(t, l, key, owner)
		if err != nil {
			t.Errorf("%s: %v", owner, err)
			lease, _ = lock.NewLease(key, lock.NoFence, func(context.Context) error { return nil })
		}
		got <- lease
	}()
	return got
}

// Come acquires key in the background, and releases it at once.
func Come(ctx context.Context, l lock.Locker, key, owner string) <-chan error {
	came := make(chan error, 1)
	go func() {
		lease, err := l.Acquire(ctx, key, lock.Options{Owner: owner})
		if err == nil {
			err = lease.Release()
		}
		came <- err
	}()
	return came
}

func ask(t testing.TB, l lock.Locker, key, owner string) (*lock.Lease, error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return insist(ctx, l, key, lock.Options{Owner: owner})
}

// Try tries once, and gives back what it gets.
func Try(t testing.TB, l lock.Locker, key string) error {
	t.Helper()
	lease, err := once(t.Context(), l, key)
	if err == nil {
		Release(t, lease)
	}
	return err
}

// Release gives a lease back. A server that is too busy to answer frees the key later.
func Release(t testing.TB, lease *lock.Lease) {
	t.Helper()
	if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrDown) {
		t.Errorf("release: %v", err)
	}
}

// Loss waits for the loss of a lease, which its release reports, too.
func Loss(t testing.TB, lease *lock.Lease) error {
	t.Helper()
	select {
	case <-lease.Done():
	case <-time.After(patience):
		t.Fatal("no loss was signalled")
	}
	if err := lease.Release(); !errors.Is(err, lock.ErrLost) || err != lease.Err() {
		t.Errorf("ended with %v, and its release says %v, want ErrLost", lease.Err(), err)
	}
	return lease.Err()
}

// Eventually polls until what holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("not seen within %v: %s", patience, what)
		}
	}
}
