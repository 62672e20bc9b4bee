package locktest

import (
	"context"
	"fmt"
	"reflect"
	"time"

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
		if got, want := timeless(all[i]), timeless(one); !reflect.DeepEqual(got, want) {
			return fmt.Errorf("key %q: together with others %+v, alone %+v", key, got, want)
		}
	}
	return nil
}

// timeless returns s without what differs between two inspections: Remaining, and the fraction of Since that is
// computed from the local clock.
func timeless(s lock.State) (all []lock.Contender) {
	if s.Holder != nil {
		all = append(all, *s.Holder)
	}
	all = append(all, s.Waiters...)
	for i, c := range all {
		if c.Remaining > 0 && c.Remaining != driver.Forever {
			all[i].Remaining = time.Hour
		}
		if !c.Since.IsZero() {
			all[i].Since = time.Unix(0, 0)
		}
	}
	return append(all, lock.Contender{Who: fmt.Sprintf("holder %t, local %t", s.Holder != nil, s.Local)})
}
