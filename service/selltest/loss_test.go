package selltest

import (
	"context"
	"errors"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/service"
)

var errTaken = errors.New("the revocableLock wants it back")

// A lease is lost at a moment of the sale. What was written stands and is flagged; before the write nothing is sold;
// if the write fails, what the store says of it counts, too. Naive code works on: what its lease was worth only the
// fence says.
func TestALeaseIsLost(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		read, before, after bool  // lost after the read, before the write or after it
		write               error // of the store
		lab                 service.Lab
		errs                []error // none: sold, and flagged
	}{
		"after the read": {read: true, errs: all(lock.ErrLost, errTaken)},
		"with the write": {
			before: true, write: service.ErrOutcomeUnknown, errs: all(lock.ErrLost, service.ErrOutcomeUnknown),
		},
		"after the write":  {after: true},
		"and it is no use": {read: true, lab: service.Lab{IgnoreLoss: true}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &revocableLock{}
			m := &hookStore{shop: redisStore(t)}
			s := stage(t, service.UnderLock(l), m)
			m.read = func(ctx context.Context) {
				if row.read {
					m.read = nil
					l.evict(errTaken)
					if !row.lab.IgnoreLoss {
						<-ctx.Done() // the news takes a moment, and a write that is quicker is flagged, not prevented
					}
				}
			}
			m.write = func(_ context.Context, before bool) error {
				if before && row.before || !before && row.after {
					l.evict(errTaken)
				}
				return row.write
			}
			r, err := s.sell(t.Context(), lab(row.lab))
			if row.errs != nil {
				fails(t, err, row.errs)
				s.sold(t, 0)
				return
			}
			if err != nil || !r.LeaseLost {
				t.Errorf("receipt %+v, %v; want the order, flagged", r, err)
			}
			s.sold(t, 1)
		})
	}
}
