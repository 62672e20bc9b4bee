package service

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errLeaseGone = errors.New("the lease is gone")

// The thinking of the lab takes as long as it was told to, and no longer than the lease.
func TestALostLeaseEndsAHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Sale{lab: Lab{Hold: time.Hour}}
		began := time.Now()
		if err := s.think(t.Context()); err != nil || time.Since(began) != time.Hour {
			t.Errorf("it thought for %v: %v", time.Since(began), err)
		}
		ctx, lose := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { lose(errLeaseGone) })
		began = time.Now()
		if err := s.think(ctx); !errors.Is(err, errLeaseGone) || time.Since(began) != time.Second {
			t.Errorf("it thought for %v: %v, want the loss after a second", time.Since(began), err)
		}
	})
}

// A sale that nobody lets go goes on by itself, and is not listed any more. So is one whose ctx has ended.
func TestAForgottenPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pauses{}
		s := (&Service{Config: Config{Pauses: p}}).stops(Request{Lab: Lab{Pause: AfterRead | BeforeWrite}})
		if s.longest() != 2*MaxPause {
			t.Errorf("two points take %v at most", s.longest())
		}
		began := time.Now()
		if err := s.at(t.Context(), AfterRead); err != nil || time.Since(began) != MaxPause {
			t.Errorf("it stood for %v: %v", time.Since(began), err)
		}
		ctx, lose := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { lose(errLeaseGone) })
		if err := s.at(ctx, BeforeWrite); !errors.Is(err, errLeaseGone) {
			t.Error(err)
		}
		if list := p.List(); len(list) != 0 {
			t.Errorf("%+v are listed, want nobody", list)
		}
	})
}

// The pause is as long as a try at first, and twice as long with every conflict, up to a bound.
func TestOptimisticPauses(t *testing.T) {
	for _, row := range []struct {
		conflicts  int
		took, want time.Duration
	}{
		{1, time.Millisecond, time.Millisecond},
		{2, time.Millisecond, 2 * time.Millisecond},
		{7, time.Millisecond, 64 * time.Millisecond},
		{8, time.Millisecond, 64 * time.Millisecond},
		{5, 100 * time.Millisecond, time.Second},
	} {
		if got := retryPause(row.conflicts, row.took); got != row.want {
			t.Errorf("after %d conflicts %v, want %v", row.conflicts, got, row.want)
		}
	}
}
