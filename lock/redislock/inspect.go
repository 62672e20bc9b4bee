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

	_ lock.BatchInspector = (*SetNX)(nil)
	_ lock.BatchInspector = (*variant)(nil)
	_ lock.BatchInspector = (*Watchdog)(nil)
	_ lock.BatchInspector = (*RLock)(nil)
	_ lock.BatchInspector = (*Redlock)(nil)
)

// batch is how many keys are inspected in one round trip. The replies of a pipeline are kept until it has ended.
const batch = 500

// Inspect returns the holder, the remaining time of its lease and its fence, in one round trip. The start of the hold
// is derived from the fence, which contains the server's clock. Waiters poll, so the server does not know them.
func (s *SetNX) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, s.client, s.names(key))
}

// InspectAll is Inspect for each of keys, in a round trip for every 500.
func (s *SetNX) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return inspectAll(ctx, s.client, keys, s.names)
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
	return inspect(ctx, v.client, v.names(key))
}

// names returns the keys of the script inspect.lua. The second one never exists.
func (v *variant) names(key string) []string { return []string{v.name(key), v.name(key) + ":fence"} }

// InspectAll is Inspect for each of keys, in a round trip for every 500.
func (v *variant) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return inspectAll(ctx, v.client, keys, v.names)
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

// InspectAll is Inspect for each of keys, in a round trip for every 500.
func (w *Watchdog) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return inspectAll(ctx, w.client, keys, w.names)
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
	return only(r.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, in a round trip for every 500.
func (r *RLock) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	states := make([]lock.State, 0, len(keys))
	for part := range slices.Chunk(keys, batch) {
		holders, pttl := make([]*redis.StringSliceCmd, len(part)), make([]*redis.DurationCmd, len(part))
		_, _ = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range part {
				name := "rlock:" + tag(key)
				holders[i], pttl[i] = p.HKeys(ctx, name), p.PTTL(ctx, name)
			}
			return nil
		})
		for i, key := range part {
			if err := cmp.Or(holders[i].Err(), pttl[i].Err()); err != nil {
				return states, queryError("inspect", "rlock:"+tag(key), err)
			}
			state := lock.State{Scope: lock.Cluster}
			for _, value := range holders[i].Val() {
				state.Holder = &lock.Contender{Who: ownerOf(value), Remaining: lock.Forever}
				if left := pttl[i].Val(); left >= 0 {
					state.Holder.Remaining = left
				}
			}
			states = append(states, state)
		}
	}
	return states, nil
}

// only returns the state of the one key that was inspected.
func only(states []lock.State, err error) (lock.State, error) {
	if err != nil {
		return lock.State{Scope: lock.Cluster}, err
	}
	return states[0], nil
}

// Keys scans the whole server.
func (r *RLock) Keys(ctx context.Context) ([]string, error) { return scan(ctx, r.client, "rlock") }

func inspect(ctx context.Context, c redis.UniversalClient, names []string) (lock.State, error) {
	return stateOf(names, run(ctx, c, redisscript.New(queueSource+inspectSource), names))
}

// inspectAll runs the script of inspect for many keys in a pipeline. If a server does not know the digest of the
// script, a second pipeline sends the source.
func inspectAll(
	ctx context.Context, c redis.UniversalClient, keys []string, names func(key string) []string,
) ([]lock.State, error) {
	script := redisscript.New(queueSource + inspectSource)
	states := make([]lock.State, 0, len(keys))
	for part := range slices.Chunk(keys, batch) {
		replies, err := ask(ctx, nil, func() []*redis.Cmd {
			replies := make([]*redis.Cmd, len(part))
			_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, key := range part {
					replies[i] = script.EvalSHA(ctx, p, names(key), nil)
				}
				return nil
			})
			_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, key := range part {
					if redis.HasErrorPrefix(replies[i].Err(), "NOSCRIPT") {
						replies[i] = script.Eval(ctx, p, names(key), nil)
					}
				}
				return nil
			})
			return replies
		})
		if err != nil {
			return states, queryError("inspect", names(part[0])[0], err)
		}
		for i, key := range part {
			state, err := stateOf(names(key), replies[i])
			if moving(replies[i].Err()) {
				state, err = inspect(ctx, c, names(key)) // alone, with patience
			}
			if err != nil {
				return states, err
			}
			states = append(states, state)
		}
	}
	return states, nil
}

// stateOf returns the state that the script of inspect has read.
func stateOf(names []string, answer *redis.Cmd) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	reply, err := answer.Slice()
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
	return only(r.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, in a round trip to all nodes for every 500.
func (r *Redlock) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	states := make([]lock.State, 0, len(keys))
	for part := range slices.Chunk(keys, batch) {
		nodes := make([][]foundKey, len(r.nodes))
		r.round(ctx, func(ctx context.Context, i int, n *node) { nodes[i] = readKeys(ctx, n.client, part) })
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
	}
	return states, nil
}

// A foundKey is what a node answered about a key.
type foundKey struct {
	keyState
	err error
}

// majority returns the state of a key. found has the answers of the nodes.
func (r *Redlock) majority(found []foundKey) (lock.State, error) {
	state := lock.State{Scope: lock.Cluster}
	errs := make([]error, len(found))
	for i, f := range found {
		errs[i] = f.err
	}
	if err := checkQuorum(r.addrs, errs); err != nil {
		return state, err
	}
	silent, byValue := 0, make(map[string][]keyState)
	for _, f := range found {
		switch {
		case f.err != nil:
			silent++
		case f.value != "":
			byValue[f.value] = append(byValue[f.value], f.keyState)
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

// readKeys reads the holders and the time limits of keys on one node.
func readKeys(ctx context.Context, c redis.UniversalClient, keys []string) []foundKey {
	get, pttl := make([]*redis.StringCmd, len(keys)), make([]*redis.DurationCmd, len(keys))
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			name := "redlock:" + tag(key)
			get[i], pttl[i] = p.Get(ctx, name), p.PTTL(ctx, name)
		}
		return nil
	})
	found := make([]foundKey, len(keys))
	for i := range keys {
		found[i] = foundKey{keyState{get[i].Val(), pttl[i].Val()}, pttl[i].Err()}
		if err := get[i].Err(); err != nil && !errors.Is(err, redis.Nil) {
			found[i].err = err
		}
	}
	return found
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
