package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rented is a lock in memory that the test can take away.
type rented struct {
	queue lock.Queue
	lose  context.CancelCauseFunc
	frees int

	answer error // to a release
}

func (r *rented) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := r.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	lease, lose := lock.NewLease(key, 7, func(context.Context) error {
		r.frees++
		r.queue.Leave(key)
		return r.answer
	})
	r.lose = lose
	return lease, nil
}

func TestDoEndsTheWorkWithTheLoss(t *testing.T) {
	r := &rented{}
	reason := errors.New("session expired")
	err := lock.Do(t.Context(), r, "k", lock.Options{}, func(ctx context.Context, f lock.Fence) error {
		if f != 7 {
			t.Errorf("fence = %d, want 7", f)
		}
		r.lose(reason)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, lock.ErrLost) || !errors.Is(err, reason) {
		t.Errorf("err = %v, want ErrLost because of %v", err, reason)
	}
	if strings.Count(err.Error(), reason.Error()) != 1 {
		t.Errorf("err = %q, want the loss once, as the work has told of it", err)
	}
	if r.frees != 1 {
		t.Errorf("freed %d times, want 1: what is left on the server is ours to remove", r.frees)
	}
}

// Work that holds several keys finds each of its leases again, and no others.
func TestDoReentersUnderAnOuterLease(t *testing.T) {
	r, nothing := &rented{}, func(context.Context, lock.Fence) error { return nil }
	once := lock.Options{TryOnce: true}
	err := lock.Do(t.Context(), r, "a", once, func(ctx context.Context, _ lock.Fence) error {
		return lock.Do(ctx, r, "b", once, func(ctx context.Context, _ lock.Fence) error {
			return errors.Join(lock.Do(ctx, r, "a", once, nothing), lock.Do(ctx, r, "b", once, nothing))
		})
	})
	if err != nil || r.frees != 2 {
		t.Errorf("err = %v, freed %d times; want nil, twice", err, r.frees)
	}
}

// A key that is gone although the lease still ran by our clock was lost, whoever finds out.
func TestReleaseFindsALossThatNobodyNoticed(t *testing.T) {
	for _, row := range []struct {
		freed error
		lost  bool
	}{
		{nil, false},
		{lock.ErrExpired, true},
		{fmt.Errorf("%w: by owner b", lock.ErrTaken), true},
		{driver.Down("release", errors.New("connection refused")), false},
		{driver.Down("two nodes of five answered", lock.ErrExpired), false}, // the others may have the key still
	} {
		lease, _ := lock.NewLease("k", 1, func(context.Context) error { return row.freed })
		err := lease.Release()
		if errors.Is(err, lock.ErrLost) != row.lost || !errors.Is(err, row.freed) {
			t.Errorf("the server says %v: Release = %v, want a match of ErrLost: %v", row.freed, err, row.lost)
		}
		if again := lease.Release(); !errors.Is(again, err) {
			t.Errorf("a second time: %v, want %v", again, err)
		}
		if !errors.Is(lease.Err(), lock.ErrReleased) {
			t.Errorf("Err = %v, want ErrReleased: work had ended as planned", lease.Err())
		}
	}
}

// A lease that is lost before anybody has it ends its work, and its end is told, once.
func TestDoOfALeaseThatIsLostAlready(t *testing.T) {
	ended := 0
	l := lock.Observe(losing{}, lock.Events{Ended: func(_ context.Context, _ time.Duration, err error) {
		if ended++; !errors.Is(err, lock.ErrTaken) {
			t.Errorf("told %v", err)
		}
	}})
	if _, err := l.Acquire(t.Context(), "k", lock.Options{}); err != nil || ended != 1 {
		t.Errorf("err = %v, told %d times; want nil, once", err, ended)
	}
	err := lock.Do(t.Context(), l, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
		if err := context.Cause(ctx); !errors.Is(err, lock.ErrTaken) {
			t.Errorf("the work was told %v", err)
		}
		return nil
	})
	if !errors.Is(err, lock.ErrTaken) || ended != 2 {
		t.Errorf("err = %v, told %d times; want the loss, once more", err, ended)
	}
}

// A losing lock grants leases that are lost.
type losing struct{}

func (losing) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	lease, lose := lock.NewLease(key, 7, func(context.Context) error { return nil })
	lose(lock.ErrTaken)
	return lease, nil
}

// Whoever re-enters under a lease that has been lost works under none.
func TestDoDoesNotReenterALostLease(t *testing.T) {
	r := &rented{}
	err := lock.Do(t.Context(), r, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
		r.lose(lock.ErrTaken)
		return lock.Do(ctx, r, "k", lock.Options{}, func(context.Context, lock.Fence) error {
			t.Error("worked under a lost lease")
			return nil
		})
	})
	if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrTaken) {
		t.Errorf("err = %v, want the loss", err)
	}
}

// The wait of WithWait bounds the wait for the lock.
func TestDoWaitsNoLongerThanItsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rented{}
		held, _ := r.Acquire(t.Context(), "k", lock.Options{})
		defer func() { _ = held.Release() }()
		gone := errors.New("the client went away")
		wait, leave := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { leave(gone) })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		err := lock.Do(ctx, r, "k", lock.Options{Wait: wait}, func(context.Context, lock.Fence) error { return nil })
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, gone) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// WaitFor bounds the wait and not the work, in All for all keys together.
func TestWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ring{}
		held, _ := r.Acquire(t.Context(), "b", lock.Options{})
		time.AfterFunc(2*time.Second, func() { _ = held.Release() })
		began := time.Now()
		short := lock.Options{WaitFor: time.Second}
		none := func(context.Context, lock.Fence) error { return nil }
		err := lock.Do(t.Context(), r, "b", short, none)
		took := time.Since(began)
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("%v after %v, want ErrHeld and DeadlineExceeded after a second", err, took)
		}
		long := lock.Options{WaitFor: 5 * time.Second}
		work := func(ctx context.Context, _ map[string]lock.Fence) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		}
		err = lock.All(t.Context(), r, []string{"a", "b"}, long, work)
		if err != nil {
			t.Errorf("work was bounded, too: %v", err)
		}
		err = lock.Do(t.Context(), r, "b", lock.Options{WaitFor: -1}, none)
		if !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("a negative WaitFor: %v", err)
		}
	})
}

// A Locker that cannot be compared could not be recognised by nested work.
func TestDoNeedsAComparableLocker(t *testing.T) {
	type several struct {
		lock.Locker
		names []string
	}
	err := lock.Do(t.Context(), several{&rented{}, nil}, "k", lock.Options{}, func(context.Context, lock.Fence) error {
		return errors.New("work was called")
	})
	if !errors.Is(err, lock.ErrInvalid) {
		t.Error(err)
	}
}
