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
		s := &labStore{sale: &Sale{}, lab: Lab{Hold: time.Hour}}
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
		s := &stops{p, AfterRead | BeforeWrite, Pause{RequestID: "r"}, nil}
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
	own := OptimisticOptions{MaxPause: time.Second}
	given := OptimisticOptions{Pause: 100 * time.Millisecond, MaxPause: time.Second}
	for _, row := range []struct {
		o         OptimisticOptions
		conflicts int
		want      time.Duration
	}{
		{own, 1, time.Millisecond},
		{own, 2, 2 * time.Millisecond},
		{own, 7, 64 * time.Millisecond},
		{own, 8, 64 * time.Millisecond},
		{given, 1, 100 * time.Millisecond},
		{given, 4, 800 * time.Millisecond},
		{given, 5, time.Second},
	} {
		if got := row.o.bound(row.conflicts, time.Millisecond); got != row.want {
			t.Errorf("after %d conflicts %v, want %v", row.conflicts, got, row.want)
		}
	}
}
