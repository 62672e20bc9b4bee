package lock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// What becomes of the key when work ends so: by its error, by that of nested work, or by a panic.
func TestDoKeepsTheKeyOfAnUnknownOutcome(t *testing.T) {
	unknown := fmt.Errorf("write order: %w: %w", lock.ErrOutcomeUnknown, errors.New("connection reset"))
	type work = func(ctx context.Context, r *rented) error
	fails := func(err error) work { return func(context.Context, *rented) error { return err } }
	var thrown any // what passes through Do
	panics := func(reason any) work {
		return func(context.Context, *rented) error { thrown = reason; panic(reason) }
	}
	catch := func() {
		if caught := recover(); caught != thrown {
			t.Errorf("the caller catches %v, want %v", caught, thrown)
		}
		thrown = nil
	}
	nested := func(inner, outer work) work {
		return func(ctx context.Context, r *rented) error {
			func() {
				defer catch()
				_ = lock.Do(ctx, r, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
					return inner(ctx, r)
				})
			}()
			return outer(ctx, r)
		}
	}
	both := errors.Join(lock.Conditional(unknown), lock.Conditional(unknown))
	around := fmt.Errorf("%w: %w", lock.ErrOutcomeUnknown, lock.Conditional(unknown))
	for name, row := range map[string]struct {
		work work
		err  error
		kept bool
	}{
		"no error":                    {fails(nil), nil, false},
		"nothing was written":         {fails(lock.ErrDown), lock.ErrDown, false},
		"it is not known":             {fails(lock.ErrOutcomeUnknown), lock.ErrOutcomeUnknown, true},
		"wrapped":                     {fails(unknown), unknown, true},
		"joined with another":         {fails(errors.Join(errors.New("another"), unknown)), unknown, true},
		"of a conditional write":      {fails(lock.Conditional(unknown)), unknown, false},
		"the same, wrapped":           {fails(fmt.Errorf("sell: %w", lock.Conditional(unknown))), unknown, false},
		"of two writes, one is not":   {fails(errors.Join(lock.Conditional(unknown), unknown)), unknown, true},
		"of two writes, both are":     {fails(both), unknown, false},
		"another error, marked so":    {fails(lock.Conditional(lock.ErrDown)), lock.ErrDown, false},
		"wrapped around a marked one": {fails(around), unknown, true},
		"of nested work":              {nested(fails(unknown), fails(unknown)), unknown, true},
		"of nested work, swallowed":   {nested(fails(unknown), fails(nil)), nil, true},
		"of nested work, panicked":    {nested(fails(unknown), panics("work")), nil, true},
		"nested work panicked so":     {nested(panics(unknown), fails(nil)), nil, true},
		"panicked":                    {panics("work"), nil, false},
		"panicked with another error": {panics(lock.ErrDown), nil, false},
		"panicked with it":            {panics(unknown), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rented{}
			var err error
			func() {
				defer catch()
				err = lock.Do(t.Context(), r, "k", lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
					defer func() {
						if r.frees > 0 {
							t.Error("freed while it works")
						}
					}()
					return row.work(ctx, r)
				})
			}()
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
