package selltest

import (
	"context"
	"testing"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

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
