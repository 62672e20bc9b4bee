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

// fenceLife is how long the server's clock must be past the last fence of a key before that is forgotten: a day. It may
// be forgotten because the next fence starts from the clock, which is larger then. Only a clock that is set back by
// more than this, after so long without a holder, could repeat one. So of keys there is one on the server for each lock
// that was held in the last day, of about 120 bytes and the name; a fence that was ahead of the clock stays for so much
// longer.
const fenceLife = 24 * time.Hour

// late is whether nothing is left of a lease that was asked for at sent. What was granted then may be another's by now.
func late(sent time.Time, lease time.Duration) bool { return time.Since(sent) >= lock.Valid(lease) }

var (
	escape   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
)

// tag is key as a hash tag, so that the keys of one lock share a slot of Redis Cluster, whatever the key is. No two keys have the same.
// An empty tag would be none: that of the empty key is a sign that no other key comes out as.
func tag(key string) string {
	if key == "" {
		return "{%}"
	}
	return "{" + escape.Replace(key) + "}"
}

// untag is the reverse, without the braces.
func untag(inside string) string {
	if inside == "%" {
		return ""
	}
	return unescape.Replace(inside)
}

// server is Redis as a plain lock sees it: two scripts, one round trip each.
type server struct {
	client           redis.UniversalClient
	acquire, release *script
	lease            time.Duration
	acks             acks
	sweeper          *sweeper
}

func newServer(c redis.UniversalClient, lease time.Duration, a acks) *server {
	return &server{
		client: c, lease: lease, acks: a, sweeper: newSweeper(),
		acquire: newScript(acquireSource), release: newScript(releaseSource),
	}
}

// A claim is one acquisition: a key and the value that only we would write there.
type claim struct {
	*server
	options   lock.Options
	key, name string // as asked for, and as the key in Redis
	value     string // token, blank, owner
}

func (s *server) claim(key string, o lock.Options) claim {
	return claim{s, o, key, "lock:" + tag(key), uuid.NewString() + " " + o.Owner}
}

// try asks once. The error is a HeldError if another holds the key. After any other error the outcome is unknown, so it
// frees before it returns, on a context of its own.
func (c claim) try(ctx context.Context) (lock.Fence, error) {
	answered, short := c.acks.run(ctx, c.options, c.client, c.acquire, []string{c.name, c.name + ":fence"},
		c.value, c.lease.Milliseconds(), fenceLife.Milliseconds())
	reply, err := answered.Slice()
	if err == nil {
		var fence lock.Fence
		fence, err = answer(c.key, reply)
		switch {
		case errors.Is(err, lock.ErrHeld):
			return 0, err
		case err == nil && short != nil:
			detached(ctx, c.free)
			return 0, short
		case err == nil:
			return fence, nil
		}
	}
	if refused(err) {
		return 0, refusal(c.name, err)
	}
	if crowded(err) {
		return 0, failure(ctx, c.options, "acquire "+c.name, err) // nothing was sent
	}
	c.sweeper.recall(ctx, c.tell)
	return 0, failure(ctx, c.options, "acquire "+c.name, err)
}

// detached frees on a context of its own: the caller's may have ended.
func detached(ctx context.Context, free func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	_ = free(ctx)
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
func failure(ctx context.Context, o lock.Options, doing string, err error) error {
	if waitOver(ctx, o) {
		return context.Cause(ctx) // that says nothing of the server
	}
	if crowded(err) {
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	return lock.Down(doing, err)
}

// crowded is whether all our connections were in use: nothing was sent, and that says nothing of the server.
func crowded(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// waitOver is whether a caller who waits has stopped. The client puts the deadline of ctx on its socket as well, where it passes
// a moment before ctx knows.
func waitOver(ctx context.Context, o lock.Options) bool {
	if o.TryOnce {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// refusal names the fix for the error replies that have one.
func refusal(name string, err error) error {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "WRONGTYPE"):
		return fmt.Errorf("key %s in Redis, or one beside it that begins like it, is no lock but something else (see TYPE); remove or rename it: %w", name, err)
	case strings.HasPrefix(text, "READONLY"):
		return &lock.DownError{Server: "redis", Reason: "it is a read-only replica; point redis.addrs at the master, or use redis.master_name"}
	case strings.HasPrefix(text, "OOM"):
		return &lock.DownError{Server: "redis", Reason: "it is out of memory; raise its maxmemory, or free some"}
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
	return verdict(c.release.run(ctx, c.client, []string{c.name}, c.value).Int())
}

func verdict(reply int, err error) error {
	switch {
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: something that is no lock has its name (%v)", lock.ErrTaken, err)
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
