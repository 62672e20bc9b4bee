package redislock

import (
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

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
)

var (
	//go:embed inspect.lua
	inspectSource string
	//go:embed evict.lua
	evictSource string
)

// An inspectable lock names its holders and lists its keys.
type inspectable interface {
	driver.Inspector
	driver.BatchInspector
	driver.Lister
}

var (
	_ inspectable    = (*SetNX)(nil)
	_ inspectable    = (*SetNXDel)(nil)
	_ inspectable    = (*Watchdog)(nil)
	_ inspectable    = (*RLock)(nil)
	_ inspectable    = (*Redlock)(nil)
	_ driver.Evictor = (*SetNX)(nil) // a lock without a fence has no Evict: an evicted holder could still write
	_ driver.Evictor = (*Watchdog)(nil)
)

// Inspect returns the holder, the remaining time of its lease without renewal, and its fence and the waiters if the
// server knows them, in one round trip. The start of the hold is derived from the fence, which contains the server's
// clock. The waiters of a Watchdog are in the order in which they will be granted the lock; their arrival times are not
// stored. With lock.HandOver, a process appears as one waiter.
func (s *server) Inspect(ctx context.Context, key string) (lock.State, error) {
	return only(s.InspectAll(ctx, []string{key}))
}

// InspectAll is Inspect for each of keys, in a round trip for every 500.
func (s *server) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	return inBatches(keys, func(part []string) ([]lock.State, error) { return s.read(ctx, s, part) })
}

// Keys scans the whole server.
func (s *server) Keys(ctx context.Context) ([]string, error) { return scan(ctx, s.client, s.prefix) }

// Evict deletes the key, in one round trip. The holder does not renew its lease, so it notices the eviction only when
// the lease would have run out, or when the store refuses its write.
func (s *SetNX) Evict(ctx context.Context, key string) (lock.Fence, error) { return s.evict(ctx, key) }

// Evict takes the lock away and grants it to the oldest waiter, in one round trip. The holder's lease ends at its
// next renewal, at most a third of Lease later.
func (w *Watchdog) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return w.evict(ctx, key)
}

func (s *server) evict(ctx context.Context, key string) (lock.Fence, error) {
	names := s.names(key)
	script := redisscript.New(queueSource + evictSource)
	reply, err := run(ctx, s.client, script, names, grantLease.Milliseconds()).Text()
	if err != nil {
		return lock.NoFence, requestError("evict the holder of", names[0], err)
	}
	fence, err := strconv.ParseUint(reply, 10, 64)
	if err != nil {
		return lock.NoFence, fmt.Errorf("evict the holder of %s: fence %q: %w", names[0], reply, err)
	}
	return lock.Fence(fence), nil
}

// only returns the state of the one key that was inspected.
func only(states []lock.State, err error) (lock.State, error) {
	if err != nil {
		return lock.State{}, err
	}
	return states[0], nil
}

// inBatches inspects keys, 500 in one round trip, because the replies of a pipeline are kept until it has ended.
func inBatches(keys []string, inspect func(part []string) ([]lock.State, error)) ([]lock.State, error) {
	states := make([]lock.State, 0, len(keys))
	for part := range slices.Chunk(keys, 500) {
		more, err := inspect(part)
		states = append(states, more...)
		if err != nil {
			return states, err
		}
	}
	return states, nil
}

// readByScript inspects keys of a lock with a fence. If a server does not know the digest of the script, a second
// pipeline sends the source.
func readByScript(ctx context.Context, s *server, keys []string) ([]lock.State, error) {
	script := redisscript.New(queueSource + inspectSource)
	replies, err := ask(ctx, nil, func() []*redis.Cmd {
		list := make([]*redis.Cmd, len(keys))
		for _, send := range []func(context.Context, redisscript.Sender, []string, []any) *redis.Cmd{
			script.EvalSHA, script.Eval,
		} {
			_, _ = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, key := range keys {
					if list[i] == nil || redis.HasErrorPrefix(list[i].Err(), "NOSCRIPT") {
						list[i] = send(ctx, p, s.names(key), nil)
					}
				}
				return nil
			})
		}
		return list
	})
	if err != nil {
		return nil, requestError("inspect", s.names(keys[0])[0], err)
	}
	states := make([]lock.State, 0, len(keys))
	for i, key := range keys {
		if moving(replies[i].Err()) {
			replies[i] = run(ctx, s.client, script, s.names(key)) // alone, with patience
		}
		state, err := stateOf(s.names(key)[0], replies[i])
		if err != nil {
			return states, err
		}
		states = append(states, state)
	}
	return states, nil
}

// stateOf returns the state that inspect.lua has read.
func stateOf(name string, answer *redis.Cmd) (lock.State, error) {
	state := lock.State{}
	reply, err := answer.Slice()
	if err != nil {
		return state, requestError("inspect", name, err)
	}
	if len(reply) < 5 {
		return state, fmt.Errorf("inspect %s: the script answered %d values", name, len(reply))
	}
	if value, _ := reply[0].(string); value != "" {
		ms, _ := reply[1].(int64)
		state.Holder = keyState{value, time.Duration(ms) * time.Millisecond}.contender()
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

func (s keyState) contender() *lock.Contender {
	c := &lock.Contender{Who: ownerOf(s.value), Remaining: s.ttl}
	if s.ttl < 0 {
		c.Remaining = driver.Forever
	}
	return c
}

// readStrings inspects keys of a lock without a fence whose value is the holder.
func readStrings(ctx context.Context, s *server, keys []string) ([]lock.State, error) {
	return s.statesOf(keys, readKeys(ctx, s.client, s.prefix, keys, stringHolder))
}

// readHashes inspects keys of an RLock.
func readHashes(ctx context.Context, s *server, keys []string) ([]lock.State, error) {
	return s.statesOf(keys, readKeys(ctx, s.client, s.prefix, keys, hashHolder))
}

func (s *server) statesOf(keys []string, found []foundKey) ([]lock.State, error) {
	states := make([]lock.State, 0, len(keys))
	for i, f := range found {
		if f.err != nil {
			return states, requestError("inspect", s.names(keys[i])[0], f.err)
		}
		state := lock.State{}
		if f.value != "" {
			state.Holder = f.contender()
		}
		states = append(states, state)
	}
	return states, nil
}

// A foundKey is what a server answered about a key.
type foundKey struct {
	keyState
	err error
}

// A holderOf reads the holder of the key name in a pipeline, and returns a function for its answer.
type holderOf func(ctx context.Context, p redis.Pipeliner, name string) (answer func() (string, error))

func stringHolder(ctx context.Context, p redis.Pipeliner, name string) func() (string, error) {
	value := p.Get(ctx, name)
	return func() (string, error) { return value.Val(), absent(value.Err()) }
}

func hashHolder(ctx context.Context, p redis.Pipeliner, name string) func() (string, error) {
	fields := p.HKeys(ctx, name)
	return func() (string, error) { return strings.Join(fields.Val(), " "), fields.Err() } // there is one at most
}

// readKeys reads the holders and the time limits of keys on one server, in one round trip.
func readKeys(ctx context.Context, c redis.UniversalClient, prefix string, keys []string, holder holderOf) []foundKey {
	found, err := ask(ctx, nil, func() []foundKey {
		holders, pttl := make([]func() (string, error), len(keys)), make([]*redis.DurationCmd, len(keys))
		_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				name := prefix + ":" + tag(key)
				holders[i], pttl[i] = holder(ctx, p, name), p.PTTL(ctx, name)
			}
			return nil
		})
		found := make([]foundKey, len(keys))
		for i := range keys {
			value, err := holders[i]()
			found[i] = foundKey{keyState{value, pttl[i].Val()}, errors.Join(err, pttl[i].Err())}
		}
		return found
	})
	if err != nil {
		return slices.Repeat([]foundKey{{err: err}}, len(keys))
	}
	return found
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
		return nil, requestError("list", prefix+":*", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

var unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")

// untag returns the key of a hash tag. inside is the tag without its braces.
func untag(inside string) string { return unescape.Replace(inside) }
