package selltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// There is a bound on those who wait for a lock or work, whatever the lock: the next one is refused before anything was
// done, and when one has left another may come.
func TestSalesAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	l := new(local.Mutex)
	s := stage(t, service.UnderLock(l), redisStore(t), func(c *service.Config) { c.Waiting = 3 })
	lease, err := l.Acquire(t.Context(), string(s.sku), lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sell := func(ctx context.Context) error {
		_, err := s.Deduct(ctx, service.Request{Strategy: "it", SKU: s.sku, Quantity: 1, RequestID: "r"})
		return err
	}
	waits := func(n int) {
		t.Helper()
		for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
			if seen, err := lock.Inspect(t.Context(), l, string(s.sku)); err == nil && len(seen.Waiters) == n {
				return
			}
		}
		t.Fatalf("there are not %d waiting", n)
	}
	client, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		if err := sell(client); !errors.Is(err, context.Canceled) {
			t.Errorf("the client that left: %v", err)
		}
	})
	for range 2 {
		all.Go(func() {
			if err := sell(t.Context()); err != nil {
				t.Errorf("one that was let in: %v", err)
			}
		})
	}
	waits(3)
	if err := sell(t.Context()); !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrHeld) {
		t.Errorf("one too many: %v, want overloaded", err)
	}
	leave()
	waits(2)
	all.Go(func() {
		if err := sell(t.Context()); err != nil {
			t.Errorf("the one that took the place: %v", err)
		}
	})
	waits(3)
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	all.Wait()
	if stock, err := s.Stock(t.Context(), "here", s.sku); err != nil || stock.Sold != 3 {
		t.Errorf("sold %d, %v; want 3", stock.Sold, err)
	}
}

// A store that was too slow.
type late struct {
	shop
	err error
}

func (l late) Deduct(context.Context, service.Order) (service.Order, error) {
	return service.Order{}, l.err
}

func (l late) Read(context.Context, service.SKU) (service.Stock, error) {
	return service.Stock{}, l.err
}

// A store that does not finish in time has done nothing: that is load while the health probe says that it is up, and an
// outage while it does not. What may have been done, and what is no time-out, is neither.
func TestSlowIsNotDown(t *testing.T) {
	t.Parallel()
	timeout := fmt.Errorf("deduct: %w: %w", lock.ErrDown, context.DeadlineExceeded)
	for name, row := range map[string]struct {
		err  error
		down bool // by the time of the error
		want []error
	}{
		"slow":         {timeout, false, all(lock.ErrOverloaded)},
		"between":      {fmt.Errorf("deduct: %w", context.DeadlineExceeded), false, all(lock.ErrOverloaded)},
		"down":         {timeout, true, all(lock.ErrDown)},
		"unreachable":  {driver.Down("deduct", errors.New("refused")), false, all(lock.ErrDown)},
		"told":         {driver.NewDown("redis", "disk-full"), false, all(lock.ErrDown)},
		"in the queue": {fmt.Errorf("deduct: %w", lock.ErrOverloaded), false, all(lock.ErrOverloaded)},
		"lost":         {errors.Join(timeout, lock.ErrLost), false, all(lock.ErrDown)},
		"in doubt": {
			fmt.Errorf("deduct: %w: %w", service.ErrOutcomeUnknown, context.DeadlineExceeded), false,
			all(service.ErrOutcomeUnknown),
		},
		"in doubt, and slow": {
			fmt.Errorf("deduct: %w: %w", service.ErrOutcomeUnknown, timeout), false,
			all(service.ErrOutcomeUnknown, lock.ErrDown),
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s *scene
			way := func(ctx context.Context, store service.Store, sale *service.Sale) error {
				if row.down {
					s.keeping.turn(t, &driver.DownError{Server: "redis", Reason: "gone"})
				}
				return service.Atomically(ctx, late{s.store, row.err}, sale)
			}
			s = stage(t, way, redisStore(t))
			_, err := s.Deduct(t.Context(), service.Request{Strategy: "it", SKU: s.sku, Quantity: 1, RequestID: "r"})
			for _, is := range []error{lock.ErrOverloaded, lock.ErrDown, service.ErrOutcomeUnknown} {
				if errors.Is(err, is) != slices.Contains(row.want, is) {
					t.Errorf("%v, want %v alone", err, row.want)
				}
			}
		})
	}
}
