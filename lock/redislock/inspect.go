package redislock

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

var (
	//go:embed inspect.lua
	inspectSource string
	//go:embed evict.lua
	evictSource string
)

// Inspect tells the holder, how long its lease still runs and its fence, in one round trip. Since when it holds is read off the fence, which
// is made of the server's clock. Waiters poll and leave no trace: they are not known.
func (s *SetNX) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, s.server.client, s.server.claim(key, lock.Options{}).names())
}

// Evict deletes the key, one round trip. The holder does not renew, and so works until its lease would have run out, or writes.
func (s *SetNX) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, s.server.client, s.server.claim(key, lock.Options{}).names())
}

// Keys scans the whole server.
func (s *SetNX) Keys(ctx context.Context) ([]string, error) {
	return scan(ctx, s.server.client, "lock")
}

func (c claim) names() []string { return []string{c.name, c.name + ":fence"} }

// Inspect tells the holder, how long its lease still runs without renewal, its fence, and the waiters in the order in which they will be
// granted the lock, in one round trip. Since when it holds is read off the fence, which is made of the server's clock; when a
// waiter came is not written down. A waiter is one of lock.HandOver's processes, or a caller without it.
func (w *Watchdog) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, w.client, w.stake(key, lock.Options{}).names)
}

// Evict takes the lock away and grants it to the oldest waiter, in one round trip. The holder is told at its next renewal, a third of
// Lease later at most.
func (w *Watchdog) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, w.client, w.stake(key, lock.Options{}).names)
}

// Keys scans the whole server.
func (w *Watchdog) Keys(ctx context.Context) ([]string, error) {
	return scan(ctx, w.client, "watchdog")
}

func inspect(ctx context.Context, c redis.UniversalClient, names []string) (lock.State, error) {
	standing := lock.State{Scope: lock.Cluster}
	reply, err := newScript(queueSource+inspectSource).run(ctx, c, names).Slice()
	if err != nil {
		return standing, silence("inspect", names[0], err)
	}
	if len(reply) < 5 {
		return standing, fmt.Errorf("inspect %s: the script answered %d values", names[0], len(reply))
	}
	if value, _ := reply[0].(string); value != "" {
		standing.Holder = &lock.Contender{Who: ownerOf(value), Remaining: lock.Forever}
		if ms, _ := reply[1].(int64); ms >= 0 {
			standing.Holder.Remaining = time.Duration(ms) * time.Millisecond
		}
		fence, now := number(reply[2]), number(reply[3])
		standing.Holder.Fence = lock.Fence(fence)
		// A fence ahead of the clock was counted, because the clock had been set back.
		if age := now - fence; fence > 0 && age >= 0 {
			standing.Holder.Since = time.Now().Add(-time.Duration(age) * time.Microsecond)
		}
	}
	waiters, _ := reply[4].([]any)
	for _, w := range waiters {
		value, _ := w.(string)
		standing.Waiters = append(standing.Waiters, lock.Contender{Who: ownerOf(value)})
	}
	return standing, nil
}

func evict(ctx context.Context, c redis.UniversalClient, names []string) (lock.Fence, error) {
	reply, err := newScript(queueSource+evictSource).run(ctx, c, names, grantLease.Milliseconds()).Text()
	if err != nil {
		return lock.NoFence, silence("evict the holder of", names[0], err)
	}
	fence, err := strconv.ParseUint(reply, 10, 64)
	if err != nil {
		return lock.NoFence, fmt.Errorf("evict the holder of %s: fence %q: %w", names[0], reply, err)
	}
	return lock.Fence(fence), nil
}

func silence(doing, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return lock.Down(doing+" "+name, err)
}

// ownerOf is the name in a value, which is a token, a blank and the name.
func ownerOf(value string) string {
	_, who, _ := strings.Cut(value, " ")
	return who
}

func number(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
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
		return nil, silence("list", prefix+":*", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

var (
	_ lock.Inspector = (*SetNX)(nil)
	_ lock.Evictor   = (*SetNX)(nil)
	_ lock.Lister    = (*SetNX)(nil)
	_ lock.Inspector = (*Watchdog)(nil)
	_ lock.Evictor   = (*Watchdog)(nil)
	_ lock.Lister    = (*Watchdog)(nil)
)

// Inspect tells the holder and how long its lease still runs, or that it does so for ever, in one round trip. There is no Evict, because
// there is no fence.
func (h *hand) Inspect(ctx context.Context, key string) (lock.State, error) {
	return inspect(ctx, h.client, []string{h.name(key), h.name(key) + ":fence"})
}

// Keys scans the whole server.
func (h *hand) Keys(ctx context.Context) ([]string, error) { return scan(ctx, h.client, h.prefix) }
