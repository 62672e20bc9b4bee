// Package redislock holds the locks on Redis: a key with a time limit, owned by whoever wrote its random value.
package redislock

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
)

// fenceLife is how long the last fence of an idle key is remembered. It may be forgotten because a new one starts from the
// server's clock; only a clock set back by more than the idle time could repeat one.
const fenceLife = 24 * time.Hour

// escape keeps a key inside its hash tag, so that the keys of one lock share a slot of Redis Cluster, whatever the key is.
var escape = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// server is Redis as a plain lock sees it: two scripts, one round trip each.
type server struct {
	client           redis.UniversalClient
	acquire, release *redis.Script
	lease            time.Duration
	sweeper          *sweeper
}

func newServer(c redis.UniversalClient, lease time.Duration) *server {
	return &server{
		client: c, lease: lease, sweeper: newSweeper(),
		acquire: redis.NewScript(acquireSource), release: redis.NewScript(releaseSource),
	}
}

// A claim is one acquisition: a key and the value that only we would write there.
type claim struct {
	*server
	key, name string // as asked for, and as the key in Redis
	value     string // token, blank, owner
}

func (s *server) claim(ctx context.Context, key string) claim {
	return claim{s, key, "lock:{" + escape.Replace(key) + "}", uuid.NewString() + " " + lock.Owner(ctx)}
}

// try asks once. The error is a HeldError if another holds the key. After any other error the outcome is unknown, so it
// frees before it returns, on a context of its own.
func (c claim) try(ctx context.Context) (lock.Fence, error) {
	reply, err := c.acquire.Run(ctx, c.client, []string{c.name, c.name + ":fence"},
		c.value, c.lease.Milliseconds(), fenceLife.Milliseconds()).Slice()
	if err == nil {
		var fence lock.Fence
		if fence, err = answer(c.key, reply); err == nil || errors.Is(err, lock.ErrHeld) {
			return fence, err
		}
	}
	if refused(err) {
		return 0, refusal(c.name, err)
	}
	c.sweeper.recall(ctx, c.tell)
	return 0, failure(ctx, "acquire "+c.name, err)
}

// answer reads the reply of a script that acquires: {fence}, or {"0", holder's value, its remaining ms}, which is a HeldError.
func answer(key string, reply []any) (lock.Fence, error) {
	if len(reply) == 0 {
		return 0, errors.New("empty reply")
	}
	text, _ := reply[0].(string)
	fence, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("fence %q: %w", text, err)
	}
	if fence > 0 || len(reply) < 3 {
		return lock.Fence(fence), nil
	}
	held := &lock.HeldError{Key: key}
	if value, ok := reply[1].(string); ok {
		_, held.Holder, _ = strings.Cut(value, " ")
	}
	if ms, ok := reply[2].(int64); ok && ms > 0 {
		held.Remaining = time.Duration(ms) * time.Millisecond
	}
	return 0, held
}

// refused is whether the server answered with an error: the script did not get as far as a write.
func refused(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// failure is what an acquisition says that got no answer.
func failure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil && !lock.IsNoWait(ctx) {
		return context.Cause(ctx) // the wait was over; that says nothing of the server
	}
	return lock.Down(doing, err)
}

// refusal names the fix for the error replies that have one.
func refusal(name string, err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE"):
		return fmt.Errorf("key %s in Redis is no lock but something else (see TYPE); remove or rename it: %w", name, err)
	case strings.HasPrefix(text, "READONLY"):
		return &lock.DownError{Server: "redis", Reason: "it is a read-only replica; point redis.addrs at the master, or use redis.master_name"}
	case strings.HasPrefix(text, "OOM"):
		return &lock.DownError{Server: "redis", Reason: "it is out of memory (maxmemory)"}
	default:
		return lock.Down("ask "+name, err)
	}
}

// free gives the key back; it is ErrExpired or ErrTaken if it was not ours any more. If the server cannot be told, it is told
// later: a Redis that comes back with its data has the key still, and nobody would get it until the lease runs out.
func (c claim) free(ctx context.Context) error {
	err := c.tell(ctx)
	if errors.Is(err, lock.ErrDown) {
		c.sweeper.add(c.tell, time.Now().Add(c.lease))
	}
	return err
}

func (c claim) tell(ctx context.Context) error {
	return verdict(c.release.Run(ctx, c.client, []string{c.name}, c.value).Int())
}

func verdict(reply int, err error) error {
	switch {
	case err != nil:
		return lock.Down("ask redis", err)
	case reply == 0:
		return lock.ErrExpired
	case reply < 0:
		return lock.ErrTaken
	}
	return nil
}

// hold makes the lease of a granted claim, which is not renewed.
func (c claim) hold(sent time.Time, f lock.Fence) *lock.Lease {
	l, _ := lock.NewLease(c.key, f, c.free)
	l.Keep(sent, lock.Keep{TTL: c.lease})
	return l
}
