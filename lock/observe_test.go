package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A DownError is an ErrDown, and nothing else.
func TestDownErrorIsErrDown(t *testing.T) {
	err := error(&driver.DownError{Server: "redis", Reason: "no answer"})
	if !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) || err.Error() != "redis is down: no answer" {
		t.Errorf("%v: down %v, held %v", err, errors.Is(err, lock.ErrDown), errors.Is(err, lock.ErrHeld))
	}
}

// stranding is a lock whose server cannot be told of a release.
type stranding struct{ err error }

func (l stranding) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	lease, _ := lock.NewLease(key, 1, func(context.Context) error { return l.err })
	return lease, nil
}

// All who observe a lease are told of its end, whatever else they asked for, and of a key that could not be given back.
// A key that the server says is gone is not such a key.
func TestAllObserversAreTold(t *testing.T) {
	down := errors.New("connection refused")
	for failure, want := range map[error]int{down: 1, lock.ErrExpired: 0, lock.ErrTaken: 0, nil: 0} {
		var ended, inner, outer int
		over := make(chan struct{})
		l := lock.Observe(stranding{failure}, lock.Events{Stranded: func(err error) {
			if errors.Is(err, failure) {
				inner++
			}
		}})
		l = lock.Observe(l, lock.Events{Stranded: func(error) { outer++ }})
		l = lock.Observe(l, lock.Events{Ended: func(context.Context, time.Duration, error) { ended++; close(over) }})
		lease, err := l.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := lease.Release(); !errors.Is(err, failure) {
			t.Errorf("release: %v, want %v", err, failure)
		}
		select {
		case <-over:
		case <-time.After(time.Minute):
			t.Fatal("nobody is told of the end")
		}
		if ended != 1 || inner != want || outer != want {
			t.Errorf("%v: told of the end %d times, of a stranded key %d and %d times; want %d", failure, ended, inner,
				outer, want)
		}
	}
}

// refusing is a lock that nobody gets.
type refusing struct{}

func (refusing) Acquire(context.Context, string, lock.Options) (*lock.Lease, error) {
	return nil, lock.ErrNoCapacity
}

// Who observes a lock does not come between the caller and its error.
func TestObserveTellsTheError(t *testing.T) {
	var seen error
	waited := func(_ context.Context, _ time.Duration, err error) { seen = err }
	l := lock.Observe(refusing{}, lock.Events{Waited: waited})
	if _, err := l.Acquire(t.Context(), "k", lock.Options{}); !errors.Is(err, lock.ErrNoCapacity) ||
		!errors.Is(seen, lock.ErrNoCapacity) {
		t.Errorf("err = %v, observed %v; want ErrNoCapacity", err, seen)
	}
}

// Who asked for abandoned leases alone is told of them.
func TestObserveOnlyAbandonedLeases(t *testing.T) {
	told := 0
	l := lock.Observe(stranding{}, lock.Events{Abandoned: func() { told++ }})
	lease, err := l.Acquire(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if lease.Abandon(); told != 1 {
		t.Errorf("told %d times", told)
	}
}
