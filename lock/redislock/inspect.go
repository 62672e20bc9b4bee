package redislock

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

var (
	//go:embed inspect.lua
	inspectSource string
	//go:embed evict.lua
	evictSource string
)

var (
	_ lock.Inspector = (*SetNX)(nil)
	_ lock.Evictor   = (*SetNX)(nil)
	_ lock.Lister    = (*SetNX)(nil)
	_ lock.Inspector = (*Watchdog)(nil)
	_ lock.Evictor   = (*Watchdog)(nil)
	_ lock.Lister    = (*Watchdog)(nil)
	_ lock.Inspector = (*RLock)(nil)
	_ lock.Lister    = (*RLock)(nil)
	_ lock.Inspector = (*Redlock)(nil)
	_ lock.Lister    = (*Redlock)(nil)
)

// Inspect returns the holder, the remaining time of its lease and its fence, in one round trip. The start of the hold
// is derived from the fence, which contains the server's clock. Waiters poll, so the server does not know them.
func (s *SetNX) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, s.client, s.names(key))
}

// Evict deletes the key, in one round trip. The holder does not renew its lease, so it notices the eviction only when
// the lease would have run out, or when the store refuses its write.
func (s *SetNX) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, s.client, s.names(key))
}

// Keys scans the whole server.
func (s *SetNX) Keys(ctx context.Context) ([]string, error) {
	return scan(ctx, s.client, "lock")
}

// Inspect returns the holder and the remaining time of its lease, which may be Forever, in one round trip. There is no
// Evict, because there is no fence.
func (v *variant) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, v.client, []string{v.name(key), v.name(key) + ":fence"})
}

// Keys scans the whole server.
func (v *variant) Keys(ctx context.Context) ([]string, error) { return scan(ctx, v.client, v.prefix) }

// Inspect returns the holder, the remaining time of its lease without renewal, its fence, and the waiters in the order
// in which they will be granted the lock, in one round trip. The start of the hold is derived from the fence, which
// contains the server's clock. The arrival times of waiters are not stored. With lock.HandOver, a process appears as
// one waiter.
func (w *Watchdog) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, w.client, w.names(key))
}

// Evict takes the lock away and grants it to the oldest waiter, in one round trip. The holder's lease ends at its
// next renewal, at most a third of Lease later.
func (w *Watchdog) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, w.client, w.names(key))
}

// Keys scans the whole server.
func (w *Watchdog) Keys(ctx context.Context) ([]string, error) {
	return scan(ctx, w.client, "watchdog")
}

// Inspect returns the holder and the remaining time of its lease without renewal, in one round trip. It returns no
// waiters, because the server knows only their subscriptions. There is no Evict, because there is no fence.
func (r *RLock) Inspect(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	name := "rlock:" + tag(key)
	var holders *redis.StringSliceCmd
	var pttl *redis.DurationCmd
	_, _ = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		holders, pttl = p.HKeys(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err := cmp.Or(holders.Err(), pttl.Err()); err != nil {
		return state, queryError("inspect", name, err)
	}
	for _, value := range holders.Val() {
		state.Holder = &lock.Contender{Who: ownerOf(value), Remaining: lock.Forever}
		if pttl.Val() >= 0 {
			state.Holder.Remaining = pttl.Val()
		}
	}
	return state, nil
}

// Keys scans the whole server.
func (r *RLock) Keys(ctx context.Context) ([]string, error) { return scan(ctx, r.client, "rlock") }

func inspect(ctx context.Context, c redis.UniversalClient, names []string) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	reply, err := run(ctx, c, redisscript.New(queueSource+inspectSource), names).Slice()
	if err != nil {
		return state, queryError("inspect", names[0], err)
	}
	if len(reply) < 5 {
		return state, fmt.Errorf("inspect %s: the script answered %d values", names[0], len(reply))
	}
	if value, _ := reply[0].(string); value != "" {
		state.Holder = &lock.Contender{Who: ownerOf(value), Remaining: lock.Forever}
		if ms, _ := reply[1].(int64); ms >= 0 {
			state.Holder.Remaining = time.Duration(ms) * time.Millisecond
		}
		fence, now := number(reply[2]), number(reply[3])
		state.Holder.Fence = lock.Fence(fence)
		// If the fence is ahead of the clock, the clock was set back. Then the fence was made by counting, and shows no
		// time.
		if age := now - fence; fence > 0 && age >= 0 {
			state.Holder.Since = time.Now().Add(-time.Duration(age) * time.Microsecond)
		}
	}
	waiters, _ := reply[4].([]any)
	for _, w := range waiters {
		value, _ := w.(string)
		state.Waiters = append(state.Waiters, lock.Contender{Who: ownerOf(value)})
	}
	return state, nil
}

// number returns the number that a script has returned as text, or 0.
func number(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

func evict(ctx context.Context, c redis.UniversalClient, names []string) (lock.Fence, error) {
	reply, err := run(ctx, c, redisscript.New(queueSource+evictSource), names, grantLease.Milliseconds()).Text()
	if err != nil {
		return lock.NoFence, queryError("evict the holder of", names[0], err)
	}
	fence, err := strconv.ParseUint(reply, 10, 64)
	if err != nil {
		return lock.NoFence, fmt.Errorf("evict the holder of %s: fence %q: %w", names[0], reply, err)
	}
	return lock.Fence(fence), nil
}

// scan finds the keys of locks that are held or waited for: prefix:{key} and prefix:{key}:queue.
func scan(ctx context.Context, c redis.UniversalClient, prefix string) ([]string, error) {
	var mu sync.Mutex // the masters of a cluster are scanned at the same time
	found := make(map[string]bool)
	one := func(ctx context.Context, node *redis.Client) error {
		names := node.Scan(ctx, 0, prefix+":{*", 1000).Iterator()
		for names.Next(ctx) {
			key, kind, ok := strings.Cut(strings.TrimPrefix(names.Val(), prefix+":{"), "}")
			if ok && (kind == "" || kind == ":queue") {
				mu.Lock()
				found[untag(key)] = true
				mu.Unlock()
			}
		}
		return names.Err()
	}
	var err error
	switch c := c.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(ctx, one)
	case *redis.Client:
		err = one(ctx, c)
	default:
		err = fmt.Errorf("%T cannot be scanned", c)
	}
	if err != nil {
		return nil, queryError("list", prefix+":*", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// Inspect returns the contender that has the key on a majority of the nodes, and the time for which it will have this
// majority without renewal. It makes one round trip to all nodes. The start of the hold is not known, nor are the
// waiters, which poll. A key without a contender that has a majority has no holder.
//
// The error is an ErrDown if too few nodes answered to decide whether a contender has a majority.
//
// There is no Evict, because there is no fence: an evicted holder could still write.
func (r *Redlock) Inspect(ctx context.Context, key string) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	name := "redlock:" + tag(key)
	found, errs := make([]keyState, len(r.nodes)), make([]error, len(r.nodes))
	r.round(ctx, func(ctx context.Context, i int, n *node) { found[i], errs[i] = readKey(ctx, n.client, name) })
	if err := checkQuorum(r.addrs, errs); err != nil {
		return state, err
	}
	silent, byValue := 0, make(map[string][]keyState)
	for i, s := range found {
		switch {
		case errs[i] != nil:
			silent++
		case s.value != "":
			byValue[s.value] = append(byValue[s.value], s)
		}
	}
	for value, list := range byValue {
		if len(list) >= r.quorum {
			slices.SortFunc(list, func(a, b keyState) int { return cmp.Compare(b.ttl, a.ttl) })
			state.Holder = &lock.Contender{Who: ownerOf(value), Remaining: max(list[r.quorum-1].ttl, 0)}
			return state, nil
		}
	}
	for value, list := range byValue {
		if len(list)+silent >= r.quorum {
			return state, lock.NewDown("redlock", "majority-not-known", "who", strconv.Quote(ownerOf(value)),
				"n", len(list), "all", len(r.nodes), "silent", silent)
		}
	}
	return state, nil
}

// readKey reads the holder and the time limit of a key.
func readKey(ctx context.Context, c redis.UniversalClient, name string) (keyState, error) {
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return keyState{}, err
	}
	return keyState{get.Val(), pttl.Val()}, pttl.Err()
}

// Keys scans all nodes, and lists the keys that exist on a majority of them, even if for different contenders: Inspect
// reports whether one contender has the lock. A key that exists only on a minority is an orphan. If nodes do not
// answer, some keys may be missing, or the error is an ErrDown as for Inspect. Keys ends with ctx at the latest.
func (r *Redlock) Keys(ctx context.Context) ([]string, error) {
	var mu sync.Mutex
	nodes := make(map[string]int) // number of nodes that have a key
	errs := make([]error, len(r.nodes))
	var all sync.WaitGroup
	for i, n := range r.nodes {
		all.Go(func() {
			keys, err := scan(ctx, n.client, "redlock")
			errs[i] = err
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				nodes[key]++
			}
		})
	}
	all.Wait()
	if err := checkQuorum(r.addrs, errs); err != nil {
		return nil, err
	}
	maps.DeleteFunc(nodes, func(_ string, n int) bool { return n < r.quorum })
	return slices.Sorted(maps.Keys(nodes)), nil
}

// queryError returns the error of a request about the key name that was refused or got no answer.
func queryError(doing, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return lock.Down(doing+" "+name, err)
}

var unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")

// untag returns the key of a hash tag. inside is the tag without its braces.
func untag(inside string) string { return unescape.Replace(inside) }
