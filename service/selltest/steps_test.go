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
