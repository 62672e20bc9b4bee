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
)

// A diary has what an observer was told.
type diary []string

func (d *diary) events() lock.Events {
	note := func(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }
	return lock.Events{
		Waited:    func(_ context.Context, wait time.Duration, err error) { note("waited %v, %v", wait, err) },
		Ended:     func(_ context.Context, hold time.Duration, err error) { note("ended %v, %v", hold, err) },
		Stranded:  func(err error) { note("stranded, %v", err) },
		Abandoned: func() { note("abandoned") },
	}
}

// Every observer is told of what it asked for, whatever the others asked for, once and before the holder goes on.
func TestObserve(t *testing.T) {
	release := func(_ *rented, l *lock.Lease) { _ = l.Release() }
	lose := func(r *rented, l *lock.Lease) { r.lose(lock.ErrTaken) }
	for name, row := range map[string]struct {
		answer error // of the server, to a release
		end    func(*rented, *lock.Lease)
		told   []string
	}{
		"released":     {nil, release, []string{"ended 2s, <nil>"}},
		"not answered": {lock.ErrDown, release, []string{"stranded, backend down", "ended 2s, <nil>"}},
		"run out":      {lock.ErrExpired, release, []string{`ended 2s, lock "k" lost: lease expired`}},
		"taken":        {lock.ErrTaken, release, []string{`ended 2s, lock "k" lost: taken by another`}},
		"lost":         {nil, lose, []string{`ended 2s, lock "k" lost: taken by another`}},
		"abandoned": {
			nil, func(_ *rented, l *lock.Lease) { l.Abandon() }, []string{"abandoned", "ended 2s, <nil>"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all, again, ends, strands, abandons diary
				r := &rented{}
				var l lock.Locker = r
				for _, e := range []lock.Events{
					all.events(),
					{Ended: ends.events().Ended},
					{Stranded: strands.events().Stranded},
					{Abandoned: abandons.events().Abandoned},
					again.events(),
				} {
					l = lock.Observe(l, e)
				}
				before, _ := r.Acquire(t.Context(), "k", lock.Options{})
				if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("a held key: %v", err)
				}
				time.AfterFunc(time.Second, func() { _ = before.Release() })
				lease, err := l.Acquire(t.Context(), "k", lock.Options{})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait() // the release before has ended
				r.answer = row.answer
				time.Sleep(2 * time.Second)
				row.end(r, lease)
				_ = lease.Release()
				want := append([]string{`waited 0s, lock "k" is held`, "waited 1s, <nil>"}, row.told...)
				for who, got := range map[string]diary{"all": all, "again": again} {
					if !slices.Equal(got, want) {
						t.Errorf("%s: told %q, want %q", who, got, want)
					}
				}
				for what, got := range map[string]diary{"ended": ends, "stranded": strands, "abandoned": abandons} {
					want := slices.DeleteFunc(slices.Clone(row.told), func(s string) bool {
						return !strings.HasPrefix(s, what)
					})
					if !slices.Equal(got, want) {
						t.Errorf("%s: told %q, want %q", what, got, want)
					}
				}
			})
		})
	}
}

// roused is a lock whose waiters are woken three times.
type roused struct{ rented }

func (r *roused) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	for range 3 {
		o.Woken()
	}
	return r.rented.Acquire(ctx, key, o)
}

// Wake-ups reach everybody who asked for them, through Observe and Do. A zero Options has nobody to tell.
func TestWakeUpsAreCountedAllTheWayUp(t *testing.T) {
	var metric, mine int
	l := lock.Observe(&roused{}, lock.Events{Woken: func() { metric++ }})
	for _, o := range []lock.Options{{OnWake: func() { mine++ }}, {}} {
		if err := lock.Do(t.Context(), l, "k", o, func(context.Context, lock.Fence) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if metric != 6 || mine != 3 {
		t.Errorf("observed %d, counted %d; want 6 and 3", metric, mine)
	}
}
