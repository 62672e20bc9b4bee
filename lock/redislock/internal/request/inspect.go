package request

import (
	"context"
	_ "embed" // holder.lua
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

//go:embed holder.lua
var holderSource string

// HolderReader is the Reader of a lock whose only key has the holder's value.
var HolderReader = redisscript.New(holderSource)

// A Handle has the methods that are the same for all locks on one server.
type Handle struct{ server *Server }

// Handle returns the methods of a lock on s.
func (s *Server) Handle() Handle { return Handle{s} }

// InspectAll returns the holder of each key, the remaining time of its lease without renewal, and its fence and the
// waiters if the server knows them, in a round trip for every 500 keys. The start of the hold is derived from the
// fence, which contains the server's clock. The waiters of a Watchdog are in the order in which they will be granted
// the lock; their arrival times are not stored. With lock.HandOver, a process appears as one waiter.
func (h Handle) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	s := h.server
	return InBatches(keys, func(part []string) ([]lock.State, error) {
		names := make([][]string, len(part))
		for i, key := range part {
			names[i] = s.Names(key)
		}
		states := make([]lock.State, 0, len(part))
		for i, f := range Read(ctx, s.Client, s.Reader, names) {
			if f.Err != nil {
				return states, Failure("inspect", names[i][0], f.Err)
			}
			states = append(states, f.state())
		}
		return states, nil
	})
}

// Keys scans the whole server.
func (h Handle) Keys(ctx context.Context) ([]string, error) {
	return Scan(ctx, h.server.Client, h.server.Prefix)
}

// Close ends the waits, with lock.ErrClosed. It drops the releases that have not reached the server yet; their keys
// expire with the lease. Leases are not affected.
func (h Handle) Close() error {
	h.server.Cleanup.Close()
	return nil
}

// InBatches inspects keys, 500 in one round trip, because the replies of a pipeline are kept until it has ended.
func InBatches(keys []string, inspect func(part []string) ([]lock.State, error)) ([]lock.State, error) {
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

// A Found is what a server answered about a lock.
type Found struct {
	Value   string        // of the holder; empty: there is none
	TTL     time.Duration // the remaining time; negative: no time limit, or no key
	Fence   lock.Fence
	Since   time.Time
	Waiters []lock.Contender
	Err     error
}

// Held returns the error of a caller that wanted the key.
func (f Found) Held(key string) *lock.HeldError {
	return &lock.HeldError{Key: key, Holder: OwnerOf(f.Value), Remaining: max(f.TTL, 0)}
}

func (f Found) state() lock.State {
	state := lock.State{Waiters: f.Waiters}
	if f.Value != "" {
		state.Holder = &lock.Contender{Who: OwnerOf(f.Value), Remaining: f.TTL, Fence: f.Fence, Since: f.Since}
		if f.TTL < 0 {
			state.Holder.Remaining = driver.Forever
		}
	}
	return state
}

type sendScript func(ctx context.Context, c redisscript.Sender, keys []string, args []any) *redis.Cmd

// Read reads locks on one server, in one round trip. names are the Redis keys of each lock. The script reader returns
// {holder's value or ”, its remaining ms (-1: no limit)}, and of a lock with a fence also {last fence, now in us,
// {waiters' values}}. If the server does not know the digest of the script, a second pipeline sends the source.
func Read(ctx context.Context, c redis.UniversalClient, reader *redisscript.Script, names [][]string) []Found {
	replies, err := Ask(ctx, c, nil, func() []*redis.Cmd {
		list := make([]*redis.Cmd, len(names))
		for _, send := range []sendScript{reader.EvalSHA, reader.Eval} {
			_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i, keys := range names {
					if list[i] == nil || redis.HasErrorPrefix(list[i].Err(), "NOSCRIPT") {
						list[i] = send(ctx, p, keys, nil)
					}
				}
				return nil
			})
		}
		return list
	})
	if err != nil {
		return slices.Repeat([]Found{{Err: err}}, len(names))
	}
	found := make([]Found, len(names))
	for i, reply := range replies {
		if moving(reply.Err()) {
			reply = Call{Script: reader, Keys: names[i]}.Run(ctx, c) // alone, with patience
		}
		found[i] = parseFound(reply)
	}
	return found
}

func parseFound(answer *redis.Cmd) Found {
	reply, err := answer.Slice()
	if err != nil {
		return Found{Err: err}
	}
	if len(reply) != 2 && len(reply) != 5 {
		return Found{Err: fmt.Errorf("the script answered %d values", len(reply))}
	}
	value, _ := reply[0].(string)
	ms, _ := reply[1].(int64)
	found := Found{Value: value, TTL: time.Duration(ms) * time.Millisecond}
	if len(reply) == 2 {
		return found
	}
	fence, now := number(reply[2]), number(reply[3])
	found.Fence = lock.Fence(fence)
	// If the fence is ahead of the clock, the clock was set back. Then the fence was made by counting, and shows no
	// time.
	if age := now - fence; fence > 0 && age >= 0 {
		found.Since = time.Now().Add(-time.Duration(age) * time.Microsecond)
	}
	waiters, _ := reply[4].([]any)
	for _, w := range waiters {
		value, _ := w.(string)
		found.Waiters = append(found.Waiters, lock.Contender{Who: OwnerOf(value)})
	}
	return found
}

// number returns the number that a script has returned as text, or 0.
func number(v any) int64 {
	text, _ := v.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// Scan finds the keys of locks that are held or waited for: prefix:{key} and prefix:{key}:queue.
func Scan(ctx context.Context, c redis.UniversalClient, prefix string) ([]string, error) {
	var mu sync.Mutex // the masters of a cluster are scanned at the same time
	found := make(map[string]bool)
	one := func(ctx context.Context, node *redis.Client) error {
		names := node.Scan(ctx, 0, prefix+":{*", 1000).Iterator()
		for names.Next(ctx) {
			tag, kind, ok := strings.Cut(strings.TrimPrefix(names.Val(), prefix+":{"), "}")
			if ok && (kind == "" || kind == ":queue") {
				mu.Lock()
				found[unescape.Replace(tag)] = true
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
		return nil, Failure("list", prefix+":*", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

var unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
