package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// What becomes of the key when work ends so.
func TestDoKeepsTheKeyOfAnUnknownOutcome(t *testing.T) {
	unknown := fmt.Errorf("write order: %w: %w", lock.ErrOutcomeUnknown, errors.New("connection reset"))
	for name, row := range map[string]struct {
		err  error
		kept bool
	}{
		"no error":                    {nil, false},
		"nothing was written":         {lock.ErrDown, false},
		"it is not known":             {lock.ErrOutcomeUnknown, true},
		"wrapped":                     {unknown, true},
		"joined with another":         {errors.Join(errors.New("another"), unknown), true},
		"of a conditional write":      {lock.Conditional(unknown), false},
		"the same, wrapped":           {fmt.Errorf("sell: %w", lock.Conditional(unknown)), false},
		"of two writes, one is not":   {errors.Join(lock.Conditional(unknown), unknown), true},
		"of two writes, both are":     {errors.Join(lock.Conditional(unknown), lock.Conditional(unknown)), false},
		"another error, marked so":    {lock.Conditional(lock.ErrDown), false},
		"wrapped around a marked one": {fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, lock.Conditional(unknown)), true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rented{}
			err := lock.Do(
				t.Context(), r, "k", lock.Options{}, func(context.Context, lock.Fence) error { return row.err },
			)
			if !errors.Is(err, row.err) || errors.Is(err, lock.ErrLost) || errors.Is(err, lock.ErrAbandoned) {
				t.Errorf("err = %v, want %v and nothing else", err, row.err)
			}
			if kept := r.frees == 0; kept != row.kept {
				t.Errorf("kept: %v, want %v", kept, row.kept)
			}
		})
	}
	if lock.Conditional(nil) != nil {
		t.Error("no error is marked")
	}
}

// The nested work's unknown outcome is the outer one's, also if the work around it takes it for harmless.
func TestDoKeepsTheKeyForNestedWork(t *testing.T) {
	for name, swallow := range map[string]bool{"told": false, "swallowed": true} {
		t.Run(name, func(t *testing.T) {
			r := &rented{}
			err := lock.Do(t.Context(), r, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
				err := lock.Do(
					ctx, r, "k", lock.Options{},
					func(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown },
				)
				if !errors.Is(err, lock.ErrOutcomeUnknown) || r.frees != 0 {
					t.Errorf("inside: %v, freed %d times", err, r.frees)
				}
				if swallow {
					return nil
				}
				return err
			})
			if r.frees != 0 || (err == nil) != swallow {
				t.Errorf("err = %v, freed %d times", err, r.frees)
			}
		})
	}
}

// Work may panic after it has reported an unknown outcome, or with it.
func TestDoKeepsTheKeyAfterAPanic(t *testing.T) {
	unanswered := func(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown }
	for name, row := range map[string]struct {
		work func(ctx context.Context, r *rented) error
		kept bool
	}{
		"nothing was reported": {func(context.Context, *rented) error { panic("work") }, false},
		"another error":        {func(context.Context, *rented) error { panic(lock.ErrDown) }, false},
		"it is the panic":      {func(context.Context, *rented) error { panic(lock.ErrOutcomeUnknown) }, true},
		"nested work reported it": {func(ctx context.Context, r *rented) error {
			_ = lock.Do(ctx, r, "k", lock.Options{}, unanswered)
			panic("work")
		}, true},
		"it is the panic of nested work": {func(ctx context.Context, r *rented) error {
			defer func() { _ = recover() }()
			return lock.Do(ctx, r, "k", lock.Options{}, func(context.Context, lock.Fence) error {
				panic(lock.ErrOutcomeUnknown)
			})
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rented{}
			func() {
				defer func() { _ = recover() }()
				_ = lock.Do(t.Context(), r, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
					return row.work(ctx, r)
				})
			}()
			if kept := r.frees == 0; kept != row.kept {
				t.Errorf("kept: %v, want %v", kept, row.kept)
			}
		})
	}
}

// A lease that was lost before leaves on the server what may be ours there: the write may still come.
func TestDoOfALostLeaseAndAnUnknownOutcome(t *testing.T) {
	r := &rented{}
	err := lock.Do(t.Context(), r, "k", lock.Options{}, func(context.Context, lock.Fence) error {
		r.lose(lock.ErrExpired)
		return lock.ErrOutcomeUnknown
	})
	if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrOutcomeUnknown) || r.frees != 0 {
		t.Errorf("err = %v, freed %d times", err, r.frees)
	}
}

// Abandon ends a lease here, and neither renews nor frees it on the server.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var frees int
		var renewed []time.Duration
		began := time.Now()
		lease, lost := lock.NewLease("k", 1, func(context.Context) error { frees++; return nil })
		every := lock.Renewal{TTL: 3 * time.Second, Every: time.Second}
		every.Renew = func(context.Context) error {
			renewed = append(renewed, time.Since(began))
			return nil
		}
		lease.KeepAlive(began, every)
		time.Sleep(1500 * time.Millisecond)
		lease.Abandon()
		<-lease.Done()
		if err := lease.Err(); !errors.Is(err, lock.ErrAbandoned) || errors.Is(err, lock.ErrLost) {
			t.Errorf("Err = %v", err)
		}
		lost(lock.ErrTaken)
		lease.Abandon()
		if err := lease.Release(); !errors.Is(err, lock.ErrAbandoned) {
			t.Errorf("Release = %v", err)
		}
		time.Sleep(time.Minute)
		if frees != 0 || !slices.Equal(renewed, []time.Duration{time.Second}) {
			t.Errorf("freed %d times, renewed at %v", frees, renewed)
		}
	})
}

func TestAbandonAfterReleaseDoesNothing(t *testing.T) {
	r := &rented{}
	lease, _ := r.Acquire(t.Context(), "k", lock.Options{})
	_ = lease.Release()
	lease.Abandon()
	if !errors.Is(lease.Err(), lock.ErrReleased) || r.frees != 1 {
		t.Errorf("Err = %v, freed %d times", lease.Err(), r.frees)
	}
}

// Whoever watches a lock is told of it, and not of a loss.
func TestObserveAnAbandonedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ends []error
		abandoned := 0
		l := lock.Observe(&rented{}, lock.Events{
			Ended: func(_ context.Context, _ time.Duration, err error) {
				mu.Lock()
				ends = append(ends, err)
				mu.Unlock()
			},
			Abandoned: func() { mu.Lock(); abandoned++; mu.Unlock() },
		})
		for key, err := range map[string]error{"kept": lock.ErrOutcomeUnknown, "freed": nil} {
			_ = lock.Do(t.Context(), l, key, lock.Options{}, func(context.Context, lock.Fence) error { return err })
		}
		synctest.Wait()
		if len(ends) != 2 || ends[0] != nil || ends[1] != nil || abandoned != 1 {
			t.Errorf("ends %v, abandoned %d times; want two without an error, one of them abandoned", ends, abandoned)
		}
	})
}

// A code is written with its values, in pairs, and alone without any. The last name without a value is left out.
func TestCoded(t *testing.T) {
	for want, values := range map[string][]any{
		"full":                 nil,
		"full (of=a)":          {"of", "a"},
		"full (of=a, after=2)": {"of", "a", "after", 2},
		"full ":                {"of"},
	} {
		if got := driver.Coded("full", values); got != strings.TrimSpace(want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
