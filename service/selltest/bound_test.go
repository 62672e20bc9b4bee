package selltest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// A desk is a shelf with transactions, whose writes take as long as the test says.
type desk struct {
	shelf
	takes time.Duration
}

func (d *desk) Write(ctx context.Context, o service.Order) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d.takes):
	}
	_, err := d.Deduct(ctx, o)
	return err
}

func (d *desk) Swap(ctx context.Context, o service.Order) error { return d.Write(ctx, o) }

func (d *desk) Transact(
	ctx context.Context, _ service.SKU, _ bool, do func(context.Context, service.Store) error,
) error {
	return do(ctx, d)
}

// A critical section that hangs ends with the bound, and the next one can sell. What the lab's Hold adds is on top of
// it, and no wait reaches into it.
func TestWorkIsBounded(t *testing.T) {
	for name, seller := range map[string]service.Seller{
		"lock":        service.UnderLock(&local.Mutex{}),
		"optimistic":  service.Optimistically,
		"transaction": service.InTransaction,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &desk{takes: 24 * time.Hour}
				s := stage(t, seller, store, func(c *service.Config) { c.Work = 5 * time.Second })
				_, err := s.sell(t.Context())
				if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrOverloaded) {
					t.Errorf("it hangs, and ends with %v", err)
				}
				store.takes = 0
				r, err := s.sell(t.Context(), wait(time.Second), lab(service.Lab{Hold: 6 * time.Second}))
				if err != nil || r.Held < 6*time.Second {
					t.Errorf("held %v, %v; want 6s at least", r.Held, err)
				}
			})
		})
	}
}

// A transaction that waits for its row is left when the wait ends. What the store says of a transaction that it has
// sent counts, not the wait: "held" would say that nothing was written.
func TestTheWaitOfATransaction(t *testing.T) {
	for _, sent := range []error{nil, service.ErrOutcomeUnknown} {
		wait, end := context.WithCancel(t.Context())
		ctx := service.WithWait(t.Context(), func() (context.Context, context.CancelFunc) { return wait, end })
		err := service.InTransaction(ctx, endless{end: end, sent: sent}, &service.Sale{})
		if errors.Is(err, lock.ErrHeld) != (sent == nil) || !errors.Is(err, sent) && sent != nil {
			t.Errorf("%v, of a transaction that was left as %v", err, sent)
		}
	}
}

// An endless store does not get its row before the wait ends.
type endless struct {
	shop
	end  context.CancelFunc
	sent error
}

func (e endless) Transact(
	ctx context.Context, _ service.SKU, _ bool, _ func(context.Context, service.Store) error,
) error {
	e.end()
	<-ctx.Done()
	if e.sent != nil {
		return e.sent
	}
	return context.Cause(ctx)
}
