package redislock

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Inspect returns the contender that has the key on a majority of the nodes, and the time for which it will have this
// majority without renewal. It makes one round trip to all nodes. The start of the hold is not known, nor are the
// waiters, which poll. A key without a contender that has a majority has no holder.
//
// The error is an ErrDown if too few nodes answered to decide whether a contender has a majority.
func (r *Redlock) Inspect(ctx context.Context, key string) (lock.State, error) {
	return only(r.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, in a round trip to all nodes for every 500.
func (r *Redlock) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return inBatches(keys, func(part []string) ([]lock.State, error) {
		nodes := make([][]foundKey, len(r.nodes))
		r.round(ctx, func(ctx context.Context, i int, n *node) error {
			nodes[i] = readKeys(ctx, n.client, "redlock", part, stringHolder)
			return nil
		})
		states := make([]lock.State, 0, len(part))
		for k := range part {
			found := make([]foundKey, len(nodes))
			for i := range nodes {
				found[i] = nodes[i][k]
			}
			state, err := r.majority(found)
			if err != nil {
				return states, err
			}
			states = append(states, state)
		}
		return states, nil
	})
}

// majority returns the state of a key. found has the answers of the nodes.
func (r *Redlock) majority(found []foundKey) (lock.State, error) {
	state := lock.State{}
	silent, errs, byValue := 0, make([]error, len(found)), make(map[string][]keyState)
	for i, f := range found {
		errs[i] = f.err
		switch {
		case f.err != nil:
			silent++
		case f.value != "":
			byValue[f.value] = append(byValue[f.value], f.keyState)
		}
	}
	if err := checkQuorum(r.addrs, errs); err != nil {
		return state, err
	}
	for value, list := range byValue {
		switch {
		case len(list) >= r.quorum:
			slices.SortFunc(list, func(a, b keyState) int { return cmp.Compare(b.ttl, a.ttl) })
			state.Holder = &lock.Contender{Who: ownerOf(value), Remaining: max(list[r.quorum-1].ttl, 0)}
			return state, nil
		case len(list)+silent >= r.quorum: // then no other value has a majority
			return state, driver.NewDown("redlock", "majority-not-known", "who", strconv.Quote(ownerOf(value)),
				"n", len(list), "all", len(r.nodes), "silent", silent)
		}
	}
	return state, nil
}

// Keys scans all nodes, and lists the keys that exist on a majority of them, even if for different contenders: Inspect
// reports whether one contender has the lock. A key that exists only on a minority is an orphan. If nodes do not
// answer, some keys may be missing, or the error is an ErrDown as for Inspect. Keys ends with ctx at the latest.
func (r *Redlock) Keys(ctx context.Context) ([]string, error) {
	listed := make([][]string, len(r.nodes))
	errs := atOnce(r.nodes, func(i int, n *node) (err error) {
		listed[i], err = scan(ctx, n.client, "redlock")
		return err
	})
	if err := checkQuorum(r.addrs, errs); err != nil {
		return nil, err
	}
	nodes := make(map[string]int) // number of nodes that have a key
	for _, key := range slices.Concat(listed...) {
		nodes[key]++
	}
	maps.DeleteFunc(nodes, func(_ string, n int) bool { return n < r.quorum })
	return slices.Sorted(maps.Keys(nodes)), nil
}
