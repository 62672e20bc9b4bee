package selltest

import (
	"errors"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// A sale that gets the receipt of an earlier one tells so at its end: its version is that of the earlier one, and who
// compares versions would take it for a collision. A sale that fails tells why, also if it never came near a lock.
func TestASaleTellsHowItEnds(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	down := &driver.DownError{Server: "lock", Reason: "gone"}
	for _, row := range []struct {
		change   func(*service.Request)
		down     error
		kinds    string
		replayed bool
		err      error
	}{
		{key(t, "one"), nil, "arrived waits acquired read thinks writes wrote released ended", false, nil},
		{key(t, "one"), nil, "arrived waits acquired read thinks writes released ended", true, nil},
		{quantity(initial + 1), nil, "arrived waits acquired read released ended", false, service.ErrSoldOut},
		{quantity(1), down, "arrived ended", false, lock.ErrDown},
	} {
		var told stepList
		s.watchers = []service.Watcher{&told}
		s.serving.turn(t, row.down)
		_, _ = s.sell(t.Context(), row.change)
		last := told.steps[len(told.steps)-1]
		if got := told.kinds(); got != row.kinds || last.Replayed != row.replayed || !errors.Is(last.Err, row.err) {
			t.Errorf("told %s\nwant %s; replayed %t, %v", got, row.kinds, last.Replayed, last.Err)
		}
	}
}

// What does not fit into the ring is counted, and never told as if it were all.
func TestStepsThatAreForgottenAreCounted(t *testing.T) {
	t.Parallel()
	ring := service.NewSteps(8)
	for range 20 {
		ring.Tell(service.Step{})
	}
	steps, dropped, more := ring.After(0)
	if len(steps) != 8 || dropped != 12 || steps[0].Number != 13 || steps[7].Number != 20 || more != nil {
		t.Errorf("%d steps from %d on, %d dropped", len(steps), steps[0].Number, dropped)
	}
	if steps, dropped, _ := ring.After(18); len(steps) != 2 || dropped != 0 {
		t.Errorf("%d steps after 18, %d dropped", len(steps), dropped)
	}
	_, _, more = ring.After(ring.Last())
	select {
	case <-more:
		t.Error("there is no step after the last")
	default:
	}
	ring.Tell(service.Step{})
	<-more
}
