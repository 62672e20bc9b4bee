package health_test

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/health"
)

// A backend that is up, but not for everything, is up: no wait ends. It is told of when that begins and ends, and says
// what it is.
func TestImpaired(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		ctx, cancel := b.While(t.Context())
		defer cancel()
		s.set(&health.ImpairedError{Reason: "half of it is gone"}, false)
		pass(health.Interval)
		l.is(t, "redis: half of it is gone")
		if b.Err() != nil || ctx.Err() != nil {
			t.Errorf("it is %v, and waits are %v", b.Err(), ctx.Err())
		}
		if w, ok := errors.AsType[*health.ImpairedError](b.Warning()); !ok || w.Reason != "half of it is gone" {
			t.Errorf("Warning() = %v", b.Warning())
		}
		pass(3 * health.Interval)
		l.is(t)
		s.set(errRefused, false)
		pass(health.Interval)
		l.is(t, isRefused)
		if b.Warning() != nil {
			t.Errorf("down, with the warning %v", b.Warning())
		}
		s.set(&health.ImpairedError{Reason: "half of it is gone"}, false)
		pass(health.Interval)
		s.set(nil, false)
		pass(health.Interval)
		l.is(t, "redis: half of it is gone", isUp)
		if b.Warning() != nil {
			t.Errorf("all is well, with the warning %v", b.Warning())
		}
	})
}
