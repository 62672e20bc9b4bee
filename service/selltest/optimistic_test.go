package selltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

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
	s := stage(t, service.Optimistically(service.OptimisticOptions{}), &rival{redisStore(t), 3})
	r, err := s.sell(t.Context())
	if err != nil || r.Tries != 4 || r.Read != initial-3 || r.Remaining != initial-4 {
		t.Errorf("%+v, %v; want sold at the fourth try", r, err)
	}
	s.sold(t, 4)
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
