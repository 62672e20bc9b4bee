package redislock

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock/internal/request"
)

// InspectAll returns, for each key, the contender that has it on a majority of the nodes, and the time for which it
// will have this majority without renewal. It makes a round trip to all nodes for every 500 keys. The start of the hold
// is not known, nor are the waiters, which poll. A key without a contender that has a majority has no holder.
//
// The error is an ErrDown if too few nodes answered to decide whether a contender has a majority.
func (r *Redlock) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return request.InBatches(keys, func(part []string) ([]lock.State, error) {
		names := make([][]string, len(part))
		for k, key := range part {
			names[k] = []string{redlockName(key)}
		}
		nodes := make([][]request.Found, len(r.nodes))
		r.round(ctx, func(ctx context.Context, i int, n *node) error {
			nodes[i] = request.Read(ctx, n.client, request.HolderReader, names)
			return nil
		})
		states := make([]lock.State, 0, len(part))
		for k := range part {
			found := make([]request.Found, len(nodes))
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
func (r *Redlock) majority(found []request.Found) (lock.State, error) {
	errs, ttls, silent := make([]error, len(found)), make(map[string][]time.Duration), 0
	for i, f := range found {
		errs[i] = f.Err
		switch {
		case f.Err != nil:
			silent++
		case f.Value != "":
			ttls[f.Value] = append(ttls[f.Value], max(f.TTL, 0))
		}
	}
	if err := checkQuorum(r.addrs, errs); err != nil {
		return lock.State{}, err
	}
	for value, list := range ttls {
		who := request.OwnerOf(value)
		switch n := len(list); {
		case n >= r.quorum:
			slices.Sort(list)
			return lock.State{Holder: &lock.Contender{Who: who, Remaining: list[n-r.quorum]}}, nil
		case n+silent >= r.quorum: // then no other value has a majority
			return lock.State{}, driver.NewDown("redlock", "majority-not-known", "who", strconv.Quote(who),
				"n", n, "all", len(r.nodes), "silent", silent)
		}
	}
	return lock.State{}, nil
}

// Keys scans all nodes, and lists the keys that exist on a majority of them, even if for different contenders: Inspect
// reports whether one contender has the lock. A key that exists only on a minority is an orphan. If nodes do not
// answer, some keys may be missing, or the error is an ErrDown as for InspectAll. Keys ends with ctx at the latest.
func (r *Redlock) Keys(ctx context.Context) ([]string, error) {
	listed := make([][]string, len(r.nodes))
	errs := atOnce(r.nodes, func(i int, n *node) (err error) {
		listed[i], err = request.Scan(ctx, n.client, "redlock")
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
