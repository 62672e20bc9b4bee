package selltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// bothStores runs test on Redis and on MySQL.
func bothStores(t *testing.T, test func(t *testing.T, store shop)) {
	for name, open := range map[string]func(testing.TB) shop{
		"redis": func(t testing.TB) shop { return redisStore(t) },
		"mysql": func(t testing.TB) shop { return mysqlStore(t) },
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// A rival is a store in which somebody else sells between a sale's read and its write, as long as there is any
// patience left.
type rival struct {
	shop
	patience int
}

func (r *rival) Swap(ctx context.Context, o service.Order) error {
	if r.patience--; r.patience >= 0 {
		theirs := o
		theirs.ID = fmt.Sprint("rival-", r.patience, "-", o.ID)
		if err := r.shop.(service.Swapper).Swap(ctx, theirs); err != nil {
			return err
		}
	}
	return r.shop.(service.Swapper).Swap(ctx, o)
}

func TestOptimisticBeginsAgain(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		s := stage(t, service.Optimistically(service.OptimisticOptions{}), &rival{store, 3})
		r, err := s.sell(t.Context())
		if err != nil || r.Tries != 4 || r.Read != initial-3 || r.Remaining != initial-4 {
			t.Errorf("%+v, %v; want sold at the fourth try", r, err)
		}
		s.sold(t, 4)
		if r, err := s.sell(t.Context()); err != nil || r.Tries != 1 || r.HolderFence != lock.NoFence {
			t.Errorf("without a rival: %+v, %v; want one try", r, err)
		}
	})
}

func TestOptimisticGivesUp(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client closed the connection")
	down := &driver.DownError{Server: "store", Reason: "the test says so"}
	hasty := service.OptimisticOptions{Tries: 3, Pause: time.Microsecond}
	patient := service.OptimisticOptions{Tries: 1000, Pause: time.Hour, MaxPause: time.Hour}
	for name, row := range map[string]struct {
		options  service.OptimisticOptions
		wait     time.Duration
		ends     func(s *scene, leave context.CancelCauseFunc)
		tries    int64
		err, not error
	}{
		"tries once": {patient, 0, nil, 1, service.ErrConflict, context.DeadlineExceeded},
		"used up":    {hasty, time.Minute, nil, 3, service.ErrConflict, context.DeadlineExceeded},
		"wait over":  {patient, 2 * time.Second, nil, 1, context.DeadlineExceeded, lock.ErrDown},
		"client gone": {
			patient, time.Minute,
			func(_ *scene, leave context.CancelCauseFunc) { leave(gone) }, 1, gone, lock.ErrDown,
		},
		"server downed": {
			patient, time.Minute,
			func(s *scene, _ context.CancelCauseFunc) { s.keeping.turn(t, down) }, 1, lock.ErrDown, gone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &rival{redisStore(t), initial}
			m := &hookStore{shop: store.shop}
			s := stage(t, service.Optimistically(row.options), &struct {
				*hookStore
				service.Swapper
			}{m, store})
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			m.read = func(context.Context) {
				if row.ends != nil {
					row.ends(s, leave)
				}
			}
			_, err := s.sell(ctx, wait(row.wait))
			fails(t, err, all(lock.ErrHeld, row.err), row.not)
			m.read = nil
			s.keeping.turn(t, nil)
			s.sold(t, row.tries) // by the rival
		})
	}
}

// Contenders who think for a millisecond: the units are sold once each. With pauses a sale takes far fewer tries
// than there are contenders; without, it is the storm, which must be seen here for that to mean anything.
func TestOptimisticStorm(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		var calm float64
		for _, row := range []struct {
			contenders int
			pause      time.Duration
		}{{4, 0}, {30, 0}, {30, 1}} {
			s := stage(
				t,
				service.Optimistically(service.OptimisticOptions{Tries: 10_000, Pause: row.pause, MaxPause: row.pause}),
				store,
			)
			if _, err := s.SetStock(t.Context(), "", s.sku, 60); err != nil {
				t.Fatal(err)
			}
			var tries, most, sold atomic.Int64
			var done sync.WaitGroup
			for range row.contenders {
				done.Go(func() {
					for {
						r, err := s.sell(t.Context(), lab(service.Lab{Hold: time.Millisecond}))
						if errors.Is(err, service.ErrSoldOut) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						sold.Add(1)
						tries.Add(int64(r.Tries))
						for tries := int64(r.Tries); ; {
							if old := most.Load(); tries <= old || most.CompareAndSwap(old, tries) {
								break
							}
						}
					}
				})
			}
			done.Wait()
			if stock, err := s.Stock(
				t.Context(), "", s.sku,
			); err != nil || sold.Load() != 60 || stock.Quantity != 0 ||
				stock.Sold != 60 {
				t.Errorf("%d sold, %+v, %v", sold.Load(), stock, err)
			}
			average := float64(tries.Load()) / 60
			t.Logf(
				"%d contenders, pauses up to %v: %.1f tries for each sale, %d at most", row.contenders,
				row.pause, average, most.Load(),
			)
			switch {
			case row.contenders == 30 && row.pause == 0:
				calm = average
				if calm > 10 {
					t.Errorf("%.1f tries for each sale, want far fewer than the contenders", calm)
				}
			case row.pause > 0 && average <= calm:
				t.Errorf(
					"%.1f tries for each sale without pauses and %.1f with: there was no storm, so this proves nothing",
					average, calm,
				)
			}
		}
	})
}
