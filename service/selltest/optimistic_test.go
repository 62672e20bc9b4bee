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
	hookStore
	patience int
}

func (r *rival) Swap(ctx context.Context, o service.Order) error {
	if r.patience--; r.patience >= 0 {
		theirs := o
		theirs.ID = fmt.Sprint("rival-", r.patience, "-", o.ID)
		if err := r.shop.Swap(ctx, theirs); err != nil {
			return err
		}
	}
	return r.shop.Swap(ctx, o)
}

func TestOptimisticBeginsAgain(t *testing.T) {
	t.Parallel()
	s := stage(t, service.Optimistically, &rival{hookStore{shop: redisStore(t)}, 3})
	r, err := s.sell(t.Context())
	if err != nil || r.Tries != 4 || r.Read != initial-3 || r.Remaining != initial-4 {
		t.Errorf("%+v, %v; want sold at the fourth try", r, err)
	}
	s.sold(t, 4)
}

// A sale that loses against a rival again and again is told why it has ended: its tries, its client, or its server.
func TestOptimisticGivesUp(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client closed the connection")
	down := &driver.DownError{Server: "store", Reason: "the test says so"}
	for name, row := range map[string]struct {
		wait  time.Duration
		ends  func(s *scene, leave context.CancelCauseFunc)
		rival int64 // what it sells
		err   error
	}{
		"tries once":    {0, func(*scene, context.CancelCauseFunc) {}, 1, service.ErrConflict},
		"used up":       {time.Minute, func(*scene, context.CancelCauseFunc) {}, 100, service.ErrConflict},
		"client gone":   {time.Minute, func(_ *scene, leave context.CancelCauseFunc) { leave(gone) }, 1, gone},
		"server downed": {time.Minute, func(s *scene, _ context.CancelCauseFunc) { s.keeping.turn(t, down) }, 1, down},
	} {
		t.Run(name, func(t *testing.T) {
			store := &rival{hookStore{shop: redisStore(t)}, 1000}
			s := stage(t, service.Optimistically, store)
			if _, err := s.SetStock(t.Context(), "", s.sku, 1000); err != nil {
				t.Fatal(err)
			}
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			store.read = func(context.Context) { row.ends(s, leave) }
			_, err := s.sell(ctx, wait(row.wait))
			fails(t, err, all(lock.ErrHeld, row.err))
			store.read = nil
			s.keeping.turn(t, nil)
			s.left(t, 1000-row.rival, row.rival)
		})
	}
}
