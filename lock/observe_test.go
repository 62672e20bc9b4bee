package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A diary has what an observer was told.
type diary []string

func (d *diary) events() Events {
	note := func(format string, args ...any) { *d = append(*d, fmt.Sprintf(format, args...)) }
	return Events{
		Waited:    func(_ context.Context, wait time.Duration, err error) { note("waited %v, %v", wait, err) },
		Ended:     func(_ context.Context, hold time.Duration, err error) { note("ended %v, %v", hold, err) },
		Stranded:  func(err error) { note("stranded, %v", err) },
		Abandoned: func() { note("abandoned") },
	}
}

// Every observer is told once and before the holder goes on, also beside one that asked for nothing. A key that is gone
// although the lease still ran by our clock was lost, whoever finds out.
func TestObserve(t *testing.T) {
	release := func(_ *memory, l *Lease) { _ = l.Release() }
	lose := func(m *memory, _ *Lease) { m.lose("k", ErrTaken) }
	// What free has found to be lost is not the loss of a loss.
	found := &LostError{"k", ErrExpired}
	few := fmt.Errorf("two nodes of five answered: %w: %w", ErrDown, ErrExpired) // the others may have the key still
	for name, row := range map[string]struct {
		answer error // of the server, to a release
		end    func(*memory, *Lease)
		err    error // of the lease, when it has ended
		told   []string
	}{
		"released":     {nil, release, ErrReleased, []string{"ended 2s, <nil>"}},
		"not answered": {ErrDown, release, ErrReleased, []string{"stranded, backend down", "ended 2s, <nil>"}},
		"half known":   {few, release, ErrReleased, []string{"ended 2s, <nil>"}},
		"run out":      {ErrExpired, release, ErrReleased, []string{`ended 2s, lock "k" lost: lease expired`}},
		"taken":        {ErrTaken, release, ErrReleased, []string{`ended 2s, lock "k" lost: taken by another`}},
		"found lost":   {found, release, ErrReleased, []string{`ended 2s, lock "k" lost: lease expired`}},
		"lost":         {nil, lose, ErrLost, []string{`ended 2s, lock "k" lost: taken by another`}},
		"abandoned": {
			nil, func(_ *memory, l *Lease) { l.Abandon() }, ErrAbandoned, []string{"abandoned", "ended 2s, <nil>"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var one, two diary
				m := &memory{}
				l := Observe(Observe(Observe(m, one.events()), Events{}), two.events())
				before := acquire(t, m, "")
				if _, err := l.Acquire(t.Context(), "k", Options{TryOnce: true}); !errors.Is(err, ErrHeld) {
					t.Errorf("a held key: %v", err)
				}
				time.AfterFunc(time.Second, func() { _ = before.Release() })
				lease := acquire(t, l, "")
				synctest.Wait() // the release before has ended
				m.answer = row.answer
				time.Sleep(2 * time.Second)
				row.end(m, lease)
				err, want := lease.Release(), cmp.Or(row.answer, row.err)
				if want == ErrReleased {
					want = nil
				}
				again := lease.Release()
				if again != err || !errors.Is(err, want) || !errors.Is(lease.Err(), row.err) {
					t.Errorf("released: %v, then %v, with %v; want %v with %v", err, again, lease.Err(), want, row.err)
				}
				told := append([]string{`waited 0s, lock "k" is held`, "waited 1s, <nil>"}, row.told...)
				if !slices.Equal(one, told) || !slices.Equal(two, told) {
					t.Errorf("told %q and %q, want %q", one, two, told)
				}
			})
		})
	}
}

// spanned is the key of a value in the ctx that an observer has made.
type spanned struct{}

// roused is a lock whose waiters are woken three times. It fails for who does not come with the observer's ctx.
type roused struct{ memory }

func (r *roused) Acquire(ctx context.Context, key string, o Options) (*Lease, error) {
	for range 3 {
		o.Woken()
	}
	if ctx.Value(spanned{}) == nil {
		return nil, errReason
	}
	return r.memory.Acquire(ctx, key, o)
}

// Wake-ups reach everybody who asked for them, through Observe and Do. A zero Options has nobody to tell. An observer
// can put something into the ctx of an acquisition, and is told how it ended.
func TestAnAcquisitionIsObserved(t *testing.T) {
	var metric, mine int
	var answers []error
	l := Observe(&roused{}, Events{
		Woken: func() { metric++ },
		Asked: func(ctx context.Context, key string) (context.Context, func(error)) {
			return context.WithValue(ctx, spanned{}, key), func(err error) { answers = append(answers, err) }
		},
	})
	for _, o := range []Options{{OnWake: func() { mine++ }}, {}} {
		held := func(ctx context.Context, _ Fence) error {
			_, err := l.Acquire(ctx, "k", Options{TryOnce: true})
			if !errors.Is(err, ErrHeld) {
				t.Errorf("a held key: %v", err)
			}
			return nil
		}
		if err := Do(t.Context(), l, "k", o, held); err != nil {
			t.Fatal(err)
		}
	}
	if metric != 12 || mine != 3 {
		t.Errorf("observed %d, counted %d; want 12 and 3", metric, mine)
	}
	if len(answers) != 4 || answers[0] != nil || !errors.Is(answers[1], ErrHeld) {
		t.Errorf("the outcomes were %v", answers)
	}
}
