package selltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

var errTaken = errors.New("the revocableLock wants it back")

// The order was written, and then the lease was lost: the order stands, and the receipt says so.
func TestLeaseLostAfterTheWrite(t *testing.T) {
	t.Parallel()
	l := &revocableLock{}
	m := &hookStore{shop: redisStore(t), write: func(_ context.Context, before bool) error {
		if !before {
			l.evict(errTaken)
		}
		return nil
	}}
	s := stage(t, service.UnderLock(l), m)
	r, err := s.sell(t.Context())
	if err != nil || !r.LeaseLost || r.ID == "" || r.Remaining != initial-1 {
		t.Errorf("receipt %+v, %v; want the order, flagged", r, err)
	}
	s.sold(t, 1)
}

// Lost before the write: nothing is written, and the client is told.
func TestLeaseLostBeforeTheWrite(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{0, time.Minute} {
		t.Run(hold.String(), func(t *testing.T) {
			l := &revocableLock{}
			m := &hookStore{shop: redisStore(t)}
			m.read = func(ctx context.Context) {
				m.read = nil
				l.evict(errTaken)
				if hold == 0 {
					<-ctx.Done() // the news takes a moment, and a write that is quicker is flagged, not prevented
				}
			}
			s := stage(t, service.UnderLock(l), m)
			_, err := s.sell(t.Context(), lab(service.Lab{Hold: hold}))
			fails(t, err, all(lock.ErrLost, errTaken))
			var order *service.OrderError
			if !errors.As(err, &order) {
				t.Errorf("err = %v, want an OrderError", err)
			}
			s.sold(t, 0)
		})
	}
}

// Lost while the write was on its way, and the write failed: whatever the store says of it counts, with the loss.
func TestLeaseLostWithAFailedWrite(t *testing.T) {
	t.Parallel()
	l := &revocableLock{}
	m := &hookStore{shop: redisStore(t), write: func(context.Context, bool) error {
		l.evict(errTaken)
		return service.ErrOutcomeUnknown
	}}
	s := stage(t, service.UnderLock(l), m)
	_, err := s.sell(t.Context())
	fails(t, err, all(lock.ErrLost, service.ErrOutcomeUnknown))
	s.sold(t, 0)
}

// The lab's IgnoreLoss: the naive code works on. What its lease was worth only the fence says.
func TestIgnoredLossWritesWhileNobodyElseHas(t *testing.T) {
	t.Parallel()
	l := &revocableLock{}
	m := &hookStore{shop: redisStore(t), read: func(context.Context) { l.evict(errTaken) }}
	s := stage(t, service.UnderLock(l), m)
	r, err := s.sell(t.Context(), lab(service.Lab{IgnoreLoss: true, Hold: time.Millisecond}))
	if err != nil || !r.LeaseLost {
		t.Errorf("receipt %+v, %v; want the order, flagged", r, err)
	}
	s.sold(t, 1)
}

// The picture in every article on distributed locks, on a real Redis: the first holder is paused between read and
// write until its lease has run out and a second has sold. Its write is refused by its fence alone; without the
// fence it loses the second's update.
func TestStaleHolder(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name       string
		lab        service.Lab
		err        error
		left, sold int64
	}{
		{"heeds the loss", service.Lab{}, lock.ErrLost, initial - 1, 1},
		{"does not, but is fenced", service.Lab{IgnoreLoss: true}, service.ErrStaleFence, initial - 1, 1},
		// 10 - 2 is not 9
		{"does not, and is not fenced", service.Lab{IgnoreLoss: true, Unfenced: true}, nil, initial - 1, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			m := &hookStore{shop: redisStore(t)}
			s := stage(t, service.UnderLock(setnx(t, 2*time.Second)), m)
			var second service.Receipt
			m.read = func(context.Context) {
				m.read = nil
				var err error
				if second, err = s.sell(t.Context()); err != nil { // waits until the first lease has run out
					t.Errorf("second: %v", err)
				}
			}
			first, err := s.sell(t.Context(), lab(row.lab))
			switch {
			case row.err != nil:
				fails(t, err, all(row.err, lock.ErrLost))
			case err != nil || !first.LeaseLost || first.Version != second.Version:
				t.Errorf("first %+v, %v; want it written over the second's %+v", first, err, second)
			case first.HolderFence == 0 || first.HolderFence >= second.HolderFence || first.Fence != 0:
				t.Errorf(
					"first held fence %d and wrote %d, second held %d", first.HolderFence, first.Fence,
					second.HolderFence,
				)
			}
			s.left(t, row.left, row.sold)
		})
	}
}

// old is a lock whose server went back in time: it hands out fences that have been used.
type old struct{ fence lock.Fence }

func (o *old) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	l, _ := lock.NewLease(key, o.fence, func(context.Context) error { return nil })
	return l, nil
}

func TestStaleFence(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		store func(testing.TB) shop
		name  string
	}{
		{func(t testing.TB) shop { return redisStore(t) }, "redis"},
		{func(t testing.TB) shop { return mysqlStore(t) }, "mysql"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			l := &old{fence: 1 << 53} // beyond what a double can count
			s := stage(t, service.UnderLock(l), row.store(t))
			if _, err := s.sell(t.Context()); err != nil {
				t.Fatal(err)
			}
			l.fence--
			_, err := s.sell(t.Context())
			fails(t, err, all(service.ErrStaleFence), lock.ErrLost)
			s.sold(t, 1)
			if r, err := s.sell(t.Context(), lab(service.Lab{Unfenced: true})); err != nil || r.Fence != 0 ||
				r.HolderFence != l.fence {
				t.Errorf("unfenced: %+v, %v; want it written without the fence", r, err)
			}
			s.sold(t, 2)
			l.fence++
			if _, err := s.sell(t.Context()); err != nil {
				t.Errorf("the same fence again: %v; want it written, as a holder may write twice", err)
			}
		})
	}
}
