package locktest

import (
	"context"
	"fmt"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// SameStates returns an error unless InspectAll returns for keys what Inspect returns for each of them. The keys must
// have no holder or waiter that comes or goes meanwhile.
func SameStates(ctx context.Context, l lock.Locker, keys []string) error {
	all, err := lock.InspectAll(ctx, l, keys)
	if err != nil {
		return err
	}
	if len(all) != len(keys) {
		return fmt.Errorf("%d states of %d keys", len(all), len(keys))
	}
	for i, key := range keys {
		one, err := lock.Inspect(ctx, l, key)
		if err != nil {
			return err
		}
		if got, want := lasting(all[i]), lasting(one); got != want {
			return fmt.Errorf("key %q: together with others %s, alone %s", key, got, want)
		}
	}
	return nil
}

// lasting returns what two inspections of the same holder and waiters have in common: not the times.
func lasting(s lock.State) string {
	text := fmt.Sprintf("local %t", s.Local)
	if h := s.Holder; h != nil {
		text += fmt.Sprintf(", held by %q with fence %d since %t, for a time %t, for ever %t",
			h.Who, h.Fence, !h.Since.IsZero(), h.Remaining > 0, h.Remaining == driver.Forever)
	}
	for _, w := range s.Waiters {
		text += fmt.Sprintf(", %q waits since %t", w.Who, !w.Since.IsZero())
	}
	return text
}
