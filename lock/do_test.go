package lock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Work that holds several keys finds each of its leases again, and no others.
func TestDoReentersUnderAnOuterLease(t *testing.T) {
	m, once := &memory{}, Options{TryOnce: true}
	err := Do(t.Context(), m, "a", once, func(ctx context.Context, _ Fence) error {
		return Do(ctx, m, "b", once, func(ctx context.Context, _ Fence) error {
			return errors.Join(Do(ctx, m, "a", once, nothing), Do(ctx, m, "b", once, nothing))
		})
	})
	if err != nil || len(m.freed()) != 2 {
		t.Errorf("err = %v, freed %v; want nil, each once", err, m.freed())
	}
}

// A lease that is lost before anybody has it ends its work, and its end is told, once.
func TestDoOfALeaseThatIsLostAlready(t *testing.T) {
	ended := 0
	l := Observe(&lost{}, Events{Ended: func(_ context.Context, _ time.Duration, err error) {
		if ended++; !errors.Is(err, ErrTaken) {
			t.Errorf("told %v", err)
		}
	}})
	err := Do(t.Context(), l, "k", Options{}, func(ctx context.Context, _ Fence) error {
		if err := context.Cause(ctx); !errors.Is(err, ErrTaken) || ended != 1 {
			t.Errorf("the work was told %v, the observer %d times", err, ended)
		}
		return nil
	})
	if !errors.Is(err, ErrTaken) || ended != 1 {
		t.Errorf("err = %v, told %d times; want the loss, once", err, ended)
	}
}

// Whoever re-enters under a lease that has been lost works under none.
func TestDoDoesNotReenterALostLease(t *testing.T) {
	m := &memory{}
	err := Do(t.Context(), m, "k", Options{}, func(ctx context.Context, _ Fence) error {
		m.lose("k", ErrTaken)
		return Do(ctx, m, "k", Options{}, func(context.Context, Fence) error {
			t.Error("worked under a lost lease")
			return nil
		})
	})
	if !errors.Is(err, ErrLost) || !errors.Is(err, ErrTaken) {
		t.Errorf("err = %v, want the loss", err)
	}
}

// WaitFor and Wait bound the wait and not the work, whose lease is renewed; in All for all keys together.
func TestBoundsOfTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{keep: renewed(0)}
		held, _ := m.Acquire(t.Context(), "b", Options{})
		gone := errors.New("the client went away")
		client, leave := context.WithTimeoutCause(t.Context(), 2*time.Second, gone)
		defer leave()
		for _, row := range []struct {
			o   Options
			why error
		}{{Options{WaitFor: time.Second}, context.DeadlineExceeded}, {Options{Wait: client}, gone}} {
			began := time.Now()
			err := Do(t.Context(), m, "b", row.o, nothing)
			took := time.Since(began)
			if !errors.Is(err, ErrHeld) || !errors.Is(err, row.why) || took != time.Second {
				t.Errorf("%v after %v, want ErrHeld and %v after a second", err, took, row.why)
			}
		}
		time.AfterFunc(2*time.Second, func() { _ = held.Release() })
		later, leave := context.WithCancel(t.Context())
		work := func(ctx context.Context, _ map[string]Fence) error {
			leave()
			time.Sleep(time.Minute)
			return ctx.Err()
		}
		err := All(t.Context(), m, []string{"a", "b"}, Options{WaitFor: 5 * time.Second, Wait: later}, work)
		if err != nil {
			t.Errorf("work was bounded, too: %v", err)
		}
		if err := Do(t.Context(), m, "b", Options{WaitFor: -1}, nothing); !errors.Is(err, ErrInvalid) {
			t.Errorf("a negative WaitFor: %v", err)
		}
	})
}

// A Locker that cannot be compared could not be recognised by nested work.
func TestDoNeedsAComparableLocker(t *testing.T) {
	type several struct {
		Locker
		names []string
	}
	if err := Do(t.Context(), several{&memory{}, nil}, "k", Options{}, nothing); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
}

// Work that was told to stop and does not stop loses its lease in the end: Do stops renewing it.
func TestDoStopsRenewingForWorkThatWasToldToStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		renewals := 0
		m := &memory{keep: renewedBy(0, func(context.Context) error { renewals++; return nil })}
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		err := Do(ctx, m, "k", Options{}, func(inside context.Context, _ Fence) error {
			<-inside.Done()
			if told := time.Since(began); told != 15*time.Second {
				t.Errorf("the work was told to stop after %v", told)
			}
			time.Sleep(time.Hour)
			return nil
		})
		if !errors.Is(err, ErrLost) || !errors.Is(err, ErrExpired) || renewals != 1 {
			t.Errorf("%v, renewed %d times; want one renewal, and the loss", err, renewals)
		}
	})
}

func TestAllSortsAndReleasesBackwards(t *testing.T) {
	m := &memory{}
	err := All(t.Context(), m, []string{"c", "a", "b", "a"}, Options{},
		func(_ context.Context, fences map[string]Fence) error {
			if len(fences) != 3 || fences["a"] != 8 || fences["b"] != 16 || fences["c"] != 24 {
				t.Errorf("fences %v, want those of a, b and c", fences)
			}
			return nil
		})
	order := []string{"a", "b", "c", "c", "b", "a"}
	if err != nil || !slices.Equal(append(m.asked(), m.freed()...), order) {
		t.Errorf("%v: asked for %v, freed %v", err, m.asked(), m.freed())
	}
	called := errors.New("called")
	err = All(t.Context(), m, nil, Options{}, func(context.Context, map[string]Fence) error { return called })
	if err != called {
		t.Errorf("without keys: %v", err)
	}
}

func TestAllReleasesWhatItHasIfOneCannotBeHad(t *testing.T) {
	m := &memory{}
	_, _ = m.Acquire(t.Context(), "b", Options{})
	err := All(t.Context(), m, []string{"a", "b", "c"}, Options{TryOnce: true},
		func(context.Context, map[string]Fence) error {
			t.Error("work began without b")
			return nil
		})
	if !errors.Is(err, ErrHeld) || !slices.Equal(m.freed(), []string{"a"}) || slices.Contains(m.asked(), "c") {
		t.Errorf("%v, freed %v, asked for %v: want ErrHeld, a freed, and c not asked for", err, m.freed(), m.asked())
	}
}

// What is left on the server of a lost lease is removed, too.
func TestOneLossEndsTheWorkOfAll(t *testing.T) {
	for _, key := range []string{"a", "b", "c"} {
		m := &memory{}
		err := All(t.Context(), m, []string{"a", "b", "c"}, Options{},
			func(ctx context.Context, _ map[string]Fence) error {
				m.lose(key, errReason)
				<-ctx.Done()
				return context.Cause(ctx)
			})
		if !errors.Is(err, ErrLost) || !errors.Is(err, errReason) || len(m.freed()) != 3 {
			t.Errorf("loss of %s: %v, freed %v, want all", key, err, m.freed())
		}
		if strings.Count(err.Error(), errReason.Error()) != 1 {
			t.Errorf("%q, want the loss once, as the work has told of it", err)
		}
	}
}

// A loss ends the wait for the next key, also if the caller bounds its waits by Options.Wait.
func TestALossEndsTheWaitOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		_, _ = m.Acquire(t.Context(), "b", Options{})
		ended := make(chan error)
		go func() {
			ended <- All(t.Context(), m, []string{"a", "b"}, Options{Wait: t.Context()},
				func(context.Context, map[string]Fence) error { return nil })
		}()
		synctest.Wait()
		m.lose("a", ErrExpired)
		if err := <-ended; !errors.Is(err, ErrLost) || !slices.Contains(m.freed(), "a") {
			t.Errorf("%v, freed %v; want ErrLost", err, m.freed())
		}
	})
}

// Work of unknown outcome leaves every key taken, unless its write was conditional.
func TestAllLeavesAllToRunOut(t *testing.T) {
	for freed, outcome := range map[int]error{0: ErrOutcomeUnknown, 2: Conditional(ErrOutcomeUnknown)} {
		m := &memory{}
		err := All(t.Context(), m, []string{"a", "b"}, Options{},
			func(context.Context, map[string]Fence) error { return outcome })
		if !errors.Is(err, ErrOutcomeUnknown) || len(m.freed()) != freed {
			t.Errorf("%v, freed %v: want %d", err, m.freed(), freed)
		}
	}
}
