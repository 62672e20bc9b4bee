package redislock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// Inspect tells who has the key on a majority of the nodes, and how long that will be so without renewal: until one node too many has freed
// it. It is one round trip to all nodes. Since when is not known, and waiters poll and leave no trace. A vote that is split has no holder.
//
// It fails with ErrDown if too few nodes answered to have a majority, or to know whether somebody has one.
//
// There is no Evict, because there is no fence: whoever was evicted could still write.
func (r *Redlock) Inspect(ctx context.Context, key string) (lock.State, error) {
	standing := lock.State{Scope: lock.Cluster}
	name := "redlock:" + tag(key)
	seen, answers := make([]sight, len(r.nodes)), make([]error, len(r.nodes))
	r.each(ctx, func(ctx context.Context, i int, n *node) { seen[i], answers[i] = look(ctx, n.client, name) })
	if err := r.minority(answers); err != nil {
		return standing, err
	}
	silent, by := 0, make(map[string][]sight)
	for i, s := range seen {
		switch {
		case answers[i] != nil:
			silent++
		case s.value != "":
			by[s.value] = append(by[s.value], s)
		}
	}
	for value, list := range by {
		if len(list) >= r.quorum {
			slices.SortFunc(list, func(a, b sight) int { return cmp.Compare(b.ttl, a.ttl) })
			standing.Holder = &lock.Contender{Who: ownerOf(value), Remaining: max(list[r.quorum-1].ttl, 0)}
			return standing, nil
		}
	}
	for value, list := range by {
		if len(list)+silent >= r.quorum {
			return standing, &lock.DownError{Server: "redlock", Reason: fmt.Sprintf(
				"%q has the key on %d of %d nodes, and %d did not answer: whether that is a majority is not known",
				ownerOf(value), len(list), len(r.nodes), silent)}
		}
	}
	return standing, nil
}

// look asks who has a key.
func look(ctx context.Context, c redis.UniversalClient, name string) (sight, error) {
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return sight{}, err
	}
	return sight{get.Val(), pttl.Val()}, pttl.Err()
}

// Keys scans all nodes, and lists the keys that a majority of them has, be it for different contenders: Inspect tells whether one of
// them has it. What a minority has is left over. With nodes that do not answer it may miss some: see ErrDown of Inspect. It takes
// as long as ctx lets it.
func (r *Redlock) Keys(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	nodes := make(map[string]int) // that have a key
	answers := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i, n := range r.nodes {
		all.Go(func() {
			keys, err := scan(ctx, n.client, "redlock")
			answers[i] = err
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				nodes[key]++
			}
		})
	}
	all.Wait()
	if err := r.minority(answers); err != nil {
		return nil, err
	}
	maps.DeleteFunc(nodes, func(_ string, n int) bool { return n < r.quorum })
	return slices.Sorted(maps.Keys(nodes)), nil
}

var (
	_ lock.Inspector = (*Redlock)(nil)
	_ lock.Lister    = (*Redlock)(nil)
)
