package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// triesOnce returns the name of the holder that a caller is told who tries once.
func triesOnce(t *testing.T, l lock.Locker) string {
	t.Helper()
	_, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
	var held *lock.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("err = %v, want a HeldError", err)
	}
	return held.Holder
}

// Who tries once is told who holds the key here: the holder, or the first of those for whom the lock is being asked.
func TestHandOverNamesTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{make(chan asking, 8), make(chan error)}
		l := lock.HandOver(s, lock.Bound{})
		release := make(chan struct{})
		come := func(who string) {
			go func() {
				lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: who})
				if err != nil {
					t.Error(err)
					return
				}
				<-release
				_ = lease.Release()
			}()
			synctest.Wait()
		}
		come("first")
		come("second")
		if who := triesOnce(t, l); who != "first" {
			t.Errorf("while the lock is asked: %q, want the first waiter", who)
		}
		s.answer <- nil
		synctest.Wait()
		if who := triesOnce(t, l); who != "first" {
			t.Errorf("while it is held: %q, want the holder", who)
		}
		release <- struct{}{}
		synctest.Wait()
		if who := triesOnce(t, l); who != "second" {
			t.Errorf("after the hand-over: %q, want the next holder", who)
		}
		close(release)
		synctest.Wait()
	})
}

// A restless locker is woken when its caller comes, and once more when it goes.
type restless struct{ come, gone int }

func (*restless) FenceRange() uint64 { return 8 }

func (r *restless) Acquire(ctx context.Context, _ string, o lock.Options) (*lock.Lease, error) {
	r.come++
	o.Woken()
	<-ctx.Done()
	r.gone++
	o.Woken()
	return nil, ctx.Err()
}

// A wake-up is the first waiter's. When nobody waits any more it is nobody's.
func TestHandOverTellsTheFirstOfAWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(restless)
		ctx, leave := context.WithCancel(t.Context())
		woken := 0
		done := make(chan error)
		go func() {
			_, err := lock.HandOver(r, lock.Bound{}).Acquire(ctx, "k", lock.Options{OnWake: func() { woken++ }})
			done <- err
		}()
		synctest.Wait()
		leave()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("err = %v", err)
		}
		if woken != 1 || r.come != 1 || r.gone != 1 {
			t.Errorf("woken %d times of %d; want the first alone", woken, r.come+r.gone)
		}
	})
}

// While a holder here does not know yet that its lease was taken away, the server's holder is the one who is told.
func TestHandOverInspectsWhoTookTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ledger{}
		l := lock.HandOver(r, lock.Bound{})
		lease, err := l.Acquire(t.Context(), "k", lock.Options{Owner: "ours"})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range []struct{ order, want []string }{
			{[]string{"ours"}, []string{"ours"}}, {[]string{"other"}, []string{"other"}}, {nil, nil},
		} {
			r.mu.Lock()
			r.order = row.order
			if len(row.order) > 0 && row.order[0] == "other" {
				r.fence += 8
			}
			r.mu.Unlock()
			s, err := lock.Inspect(t.Context(), l, "k")
			if err != nil || !slices.Equal(names(s), row.want) {
				t.Errorf("%q, %v; want %q", names(s), err, row.want)
			}
		}
		r.mu.Lock()
		r.order = []string{"ours"}
		r.mu.Unlock()
		_ = lease.Release()
		synctest.Wait()
	})
}

// told is a stubborn locker of which a server tells the standing.
type told struct {
	stubborn
	standing []string // the holder, and those behind it; "": nobody holds it
}

func (l *told) Inspect(context.Context, string) (lock.State, error) {
	s := lock.State{Scope: lock.Cluster}
	for i, who := range l.standing {
		switch {
		case i > 0:
			s.Waiters = append(s.Waiters, lock.Contender{Who: who})
		case who != "":
			s.Holder = &lock.Contender{Who: who}
		}
	}
	return s, nil
}

// While the lock is asked, the server knows one name of this process. The first waiter takes its place, as many of the
// others as can share the lease stand behind it, and the rest at the end.
func TestHandOverInspectsAQuestion(t *testing.T) {
	for name, row := range map[string]struct {
		local, server, want []string
		once                bool // the first tries once
	}{
		"the question waits behind others": {
			[]string{"a", "b", "c"}, []string{"x", "y", "a", "z"}, []string{"x", "y", "a", "b", "z", "c"}, false,
		},
		"it is the first in line": {
			[]string{"a", "b", "c"}, []string{"x", "a", "z"}, []string{"x", "a", "b", "z", "c"}, false,
		},
		"it is granted, and not yet here": {
			[]string{"a", "b", "c"}, []string{"a", "z"}, []string{"a", "b", "z", "c"}, false,
		},
		"it has not come to the server": {
			[]string{"a", "b", "c"}, []string{"x", "z"}, []string{"x", "z", "b", "c"}, false,
		},
		"nobody holds the key": {[]string{"a", "b"}, []string{""}, []string{"b"}, false},
		"a caller tries once":  {[]string{"a", "b"}, []string{"x", "a", "z"}, []string{"x", "a", "b", "z"}, true},
		"it is all alone":      {[]string{"a"}, []string{"x", "a"}, []string{"x", "a"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &told{stubborn{make(chan asking, 8), make(chan error)}, row.server}
				l := lock.HandOver(inner, lock.Bound{Holders: 2})
				ctx, leave := context.WithCancel(t.Context())
				for i, who := range row.local {
					go func() {
						_, _ = l.Acquire(ctx, "k", lock.Options{Owner: who, TryOnce: row.once && i == 0})
					}()
					synctest.Wait()
				}
				s, err := lock.Inspect(t.Context(), l, "k")
				if err != nil || !slices.Equal(names(s), row.want) {
					t.Errorf("%q, %v; want %q", names(s), err, row.want)
				}
				leave()
				synctest.Wait()
			})
		})
	}
}

// Nested work under a lost lease is told of the loss.
func TestDoTellsNestedWorkOfTheLoss(t *testing.T) {
	r := &rented{}
	_ = lock.Do(t.Context(), r, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
		r.lose(lock.ErrTaken)
		err := lock.Do(ctx, r, "k", lock.Options{}, func(context.Context, lock.Fence) error { return nil })
		if !errors.Is(err, lock.ErrTaken) {
			t.Errorf("err = %v, want the loss", err)
		}
		return nil
	})
}

// A DownError is an ErrDown, and nothing else.
func TestDownErrorIsErrDown(t *testing.T) {
	err := error(&lock.DownError{Server: "redis", Reason: "no answer"})
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
	told := make(chan struct{})
	l := lock.Observe(stranding{}, lock.Events{Abandoned: func() { close(told) }})
	lease, err := l.Acquire(t.Context(), "k", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lease.Abandon()
	select {
	case <-told:
	case <-time.After(time.Minute):
		t.Error("nobody was told")
	}
}
