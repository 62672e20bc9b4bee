package selltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// A critical section that hangs, as with a server that does not answer, ends with the bound, and the lock is free
// again.
func TestWorkBound(t *testing.T) {
	t.Parallel()
	l := &local.Mutex{}
	m := &hookStore{shop: redisStore(t)}
	s := stage(t, service.UnderLock(l), m, within(2*time.Second))
	m.write = func(ctx context.Context, _ bool) error { return hangs(ctx) }
	_, err := s.sell(t.Context())
	fails(t, err, all(context.DeadlineExceeded), lock.ErrHeld)
	m.write = nil
	if _, err := s.sell(t.Context(), wait(0)); err != nil {
		t.Errorf("the next: %v", err)
	}
	s.sold(t, 1)
}

// hangs returns when ctx ends, or with another error when it does not.
func hangs(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Minute):
		return errors.New("there is no bound")
	}
}

// The same with a real server that stands still. A read that was not answered has done nothing; a write may have.
func TestWorkBoundOnAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	own := loneRedis(t)
	m := &hookStore{shop: own.store}
	s := stage(t, service.UnderLock(&local.Mutex{}), m, within(2*time.Second))

	if _, err := s.sell(t.Context()); err != nil { // Redis knows the script from now on
		t.Fatal(err)
	}
	own.pause(t)
	_, err := s.sell(t.Context())
	// The probe has not found out yet; see TestSlowIsNotDown.
	fails(t, err, all(lock.ErrOverloaded), lock.ErrDown, service.ErrOutcomeUnknown)
	fails(t, second(s.Stock(t.Context(), "", s.sku)), all(lock.ErrOverloaded), lock.ErrDown)
	own.resume(t)
	s.sold(t, 1)

	m.read = func(context.Context) { m.read = nil; own.pause(t) }
	_, err = s.sell(t.Context())
	fails(t, err, all(service.ErrOutcomeUnknown))
	var order *service.OrderError
	if !errors.As(err, &order) {
		t.Fatalf("err = %v, want an OrderError: the id is what can be looked up", err)
	}
	own.resume(t)
	// Redis reads our order from its socket when it goes on, after the question or before it.
	var page service.Page
	for began := time.Now(); len(page.Orders) < 2 && time.Since(began) < time.Minute; {
		if page, err = s.Orders(t.Context(), "", s.sku, "", 10); err != nil {
			t.Fatal(err)
		}
	}
	if len(page.Orders) != 2 || page.Orders[1].ID != order.OrderID {
		t.Errorf("orders %+v, want %s", page.Orders, order.OrderID)
	}
}

// A try without a wait has a bound too: the lock's server may not answer.
func TestOneTryOnAServerThatStandsStill(t *testing.T) {
	t.Parallel()
	own := loneRedis(t)
	patient := redis.NewClient(
		&redis.Options{Addr: own.server.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, ReadTimeout: -1},
	)
	t.Cleanup(func() { _ = patient.Close() })
	l := redislock.NewSetNX(patient, redislock.SetNXOptions{Lease: time.Second})
	t.Cleanup(func() { _ = l.Close() })
	s := stage(t, service.UnderLock(l), redisStore(t), within(300*time.Millisecond))
	own.pause(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := s.sell(ctx, wait(0))
	fails(t, err, all(lock.ErrDown), lock.ErrHeld)
	if ctx.Err() != nil {
		t.Error("only the test ended the try")
	}
	own.resume(t)
	s.sold(t, 0)
}
