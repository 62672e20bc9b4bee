package selltest

import (
	"context"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// A server that is known to be down ends a sale before it begins, whichever of the two it is.
func TestDependencyDown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lock", "store"} {
		t.Run(name, func(t *testing.T) {
			l := &revocableLock{asked: make(chan struct{}, 1)}
			s := stage(t, service.UnderLock(l), redisStore(t))
			need := map[string]*switched{"lock": s.serving, "store": s.keeping}[name]
			down := &driver.DownError{Server: name, Reason: "the test says so"}
			need.turn(t, down)
			_, err := s.sell(t.Context())
			if err != error(down) || len(l.asked) != 0 {
				t.Errorf("%v, want %v as it is: there is no order; asked for the lock: %d", err, down, len(l.asked))
			}
			if name == "store" {
				fails(t, second(s.Stock(t.Context(), "", s.sku)), all(lock.ErrDown))
				fails(t, second(s.SetStock(t.Context(), "", s.sku, 1)), all(lock.ErrDown))
				fails(t, second(s.Orders(t.Context(), "", s.sku, "", 1)), all(lock.ErrDown))
			}
			need.turn(t, nil)
			if _, err := s.sell(t.Context()); err != nil {
				t.Errorf("up again: %v", err)
			}
			s.sold(t, 1)
		})
	}
}

// Going down does not end a critical section: what has begun is finished.
func TestDependencyGoesDownInside(t *testing.T) {
	t.Parallel()
	m := &hookStore{shop: redisStore(t)}
	s := stage(t, service.UnderLock(&local.Mutex{}), m)
	m.read = func(context.Context) {
		m.read = nil
		s.serving.turn(t, &driver.DownError{Server: "lock", Reason: "the test says so"})
	}
	if _, err := s.sell(t.Context()); err != nil {
		t.Error(err)
	}
	s.sold(t, 1)
}
