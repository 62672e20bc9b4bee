package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What becomes of the key when work ends so: by its error, by that of nested work, or by a panic.
func TestDoKeepsTheKeyOfAnUnknownOutcome(t *testing.T) {
	unknown := fmt.Errorf("write order: %w: %w", ErrOutcomeUnknown, errors.New("connection reset"))
	type work = func(ctx context.Context, m *memory) error
	fails := func(err error) work { return func(context.Context, *memory) error { return err } }
	var thrown any // what passes through Do
	panics := func(reason any) work {
		return func(context.Context, *memory) error { thrown = reason; panic(reason) }
	}
	catch := func() {
		if caught := recover(); caught != thrown {
			t.Errorf("the caller catches %v, want %v", caught, thrown)
		}
		thrown = nil
	}
	nested := func(inner, outer work) work {
		return func(ctx context.Context, m *memory) error {
			func() {
				defer catch()
				_ = Do(ctx, m, "k", Options{}, func(ctx context.Context, _ Fence) error {
					return inner(ctx, m)
				})
			}()
			return outer(ctx, m)
		}
	}
	both := errors.Join(Conditional(unknown), Conditional(unknown))
	around := fmt.Errorf("%w: %w", ErrOutcomeUnknown, Conditional(unknown))
	for name, row := range map[string]struct {
		work work
		err  error
		kept bool
	}{
		"no error":                    {fails(nil), nil, false},
		"nothing was written":         {fails(ErrDown), ErrDown, false},
		"it is not known":             {fails(ErrOutcomeUnknown), ErrOutcomeUnknown, true},
		"wrapped":                     {fails(unknown), unknown, true},
		"joined with another":         {fails(errors.Join(errors.New("another"), unknown)), unknown, true},
		"of a conditional write":      {fails(Conditional(unknown)), unknown, false},
		"the same, wrapped":           {fails(fmt.Errorf("sell: %w", Conditional(unknown))), unknown, false},
		"of two writes, one is not":   {fails(errors.Join(Conditional(unknown), unknown)), unknown, true},
		"of two writes, both are":     {fails(both), unknown, false},
		"another error, marked so":    {fails(Conditional(ErrDown)), ErrDown, false},
		"wrapped around a marked one": {fails(around), unknown, true},
		"of nested work":              {nested(fails(unknown), fails(unknown)), unknown, true},
		"of nested work, swallowed":   {nested(fails(unknown), fails(nil)), nil, true},
		"of nested work, panicked":    {nested(fails(unknown), panics("work")), nil, true},
		"nested work panicked so":     {nested(panics(unknown), fails(nil)), nil, true},
		"panicked":                    {panics("work"), nil, false},
		"panicked with another error": {panics(ErrDown), nil, false},
		"panicked with it":            {panics(unknown), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			var err error
			func() {
				defer catch()
				err = Do(t.Context(), m, "k", Options{}, func(ctx context.Context, _ Fence) error {
					defer func() {
						if len(m.freed()) > 0 {
							t.Error("freed while it works")
						}
					}()
					return row.work(ctx, m)
				})
			}()
			if !errors.Is(err, row.err) || errors.Is(err, ErrLost) || errors.Is(err, ErrAbandoned) {
				t.Errorf("err = %v, want %v and nothing else", err, row.err)
			}
			if kept := len(m.freed()) == 0; kept != row.kept {
				t.Errorf("kept: %v, want %v", kept, row.kept)
			}
		})
	}
	if Conditional(nil) != nil {
		t.Error("no error is marked")
	}
}

// A lease that was lost before leaves on the server what may be ours there: the write may still come.
func TestDoOfALostLeaseAndAnUnknownOutcome(t *testing.T) {
	m := &memory{}
	err := Do(t.Context(), m, "k", Options{}, func(context.Context, Fence) error {
		m.lose("k", ErrExpired)
		return ErrOutcomeUnknown
	})
	if !errors.Is(err, ErrLost) || !errors.Is(err, ErrOutcomeUnknown) || len(m.freed()) > 0 {
		t.Errorf("err = %v, freed %v", err, m.freed())
	}
}

// Abandon ends a lease here. It is not renewed any more, and freed only when it has lingered.
func TestAbandon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewals := 0
		m := &memory{keep: renewedBy(0, func(context.Context) error { renewals++; return nil })}
		lease := acquire(t, m, "")
		time.Sleep(ttl / 2)
		lease.Abandon()
		<-lease.Done()
		m.lose("k", ErrTaken)
		lease.Abandon()
		for what, err := range map[string]error{"Err": lease.Err(), "Release": lease.Release()} {
			if !errors.Is(err, ErrAbandoned) || errors.Is(err, ErrLost) {
				t.Errorf("%s = %v", what, err)
			}
		}
		for freed, long := range []time.Duration{time.Minute - 1, 1, time.Hour} {
			time.Sleep(long)
			synctest.Wait()
			if len(m.freed()) != min(freed, 1) || renewals != 1 {
				t.Errorf("freed %v, renewed %d times", m.freed(), renewals)
			}
		}
	})
}
