package repo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/rediserr"
	"example.com/stock/lock/driver/redisscript"
)

// Redis is a client of Redis, with a queue in front of it. While a Cluster is moving a slot, it repeats refused
// scripts until ctx ends. For that a script must name all keys that it uses.
type Redis struct {
	client redis.UniversalClient
	queue  *Queue
	answerCounter
}

// NewRedis returns a Redis that uses c. Set c's ContextTimeoutEnabled: without it go-redis checks the deadline only
// before it sends, and a silent server blocks a caller for ReadTimeout (5 s). c's MaxRetries applies only to reads,
// because scripts are sent once: see package redisscript.
//
// If ctx is canceled (not timed out) after a request was sent, the operation still waits for the reply: returning early
// would not undo the write, and would make its outcome unknown.
//
// The queue in front of it has no limit; see Behind.
func NewRedis(c redis.UniversalClient) *Redis {
	return &Redis{client: c, queue: NewQueue(NoLimit, NoLimit)}
}

// Behind puts a bounded queue in front of every operation. If q refuses an operation, or does not admit it within half
// of its time, the operation fails with lock.ErrOverloaded and does nothing; the other half of the time is for Redis.
// If q admits no more operations than the client has connections, and nothing else uses the client, an admitted
// operation always finds a connection. Behind returns r.
func (r *Redis) Behind(q *Queue) *Redis {
	r.queue = q
	return r
}

func (r *Redis) Client() redis.UniversalClient { return r.client }

// Ask sends a command that writes nothing. It returns redis.Nil for a reply that says that nothing is there.
func Ask[T any](
	ctx context.Context, r *Redis, doing, key string, send func(redis.UniversalClient) (T, error),
) (reply T, err error) {
	leave, err := r.queue.Enter(ctx, doing)
	if err != nil {
		return reply, err
	}
	defer leave()
	reply, err = send(r.client)
	if err != nil && !errors.Is(err, redis.Nil) {
		return reply, RedisFault(ctx, doing, key, err)
	}
	r.CountAnswer(nil)
	return reply, err
}

// Now returns the time of the server's clock, in Redis Cluster that of any master. It takes one round trip.
func (r *Redis) Now(ctx context.Context) (time.Time, error) {
	now, err := r.client.Time(ctx).Result()
	if err != nil {
		return now, RedisFault(ctx, "read the clock", "", err)
	}
	return now.UTC(), nil
}

// movingPause and movingMost are the first and the longest pause before a refused script is sent again while a cluster
// is moving its slot. The move takes milliseconds for each batch of keys. The pauses are random, so that waiting
// scripts do not all arrive at once.
const (
	movingPause = time.Millisecond
	movingMost  = 50 * time.Millisecond
)

// Run runs s once, and returns the reply. While a cluster is moving the slot, Run retries until ctx ends.
func (r *Redis) Run(
	ctx context.Context, doing string, s *redisscript.Script, keys []string, args ...any,
) ([]any, error) {
	leave, err := r.queue.Enter(ctx, doing)
	if err != nil {
		return nil, err
	}
	defer leave()
	for most := movingPause; ; most = min(2*most, movingMost) {
		reply, err := s.Run(ctx, r.client, keys, args...).Slice()
		if err == nil {
			r.CountAnswer(nil)
			return reply, nil
		}
		if slotMoving(err) {
			slept := driver.Sleep(ctx, most/2+rand.N(most))
			if slept == nil {
				continue
			}
		}
		if sent(err) {
			return nil, OutcomeUnknown(doing, err)
		}
		return nil, RedisFault(ctx, doing, keys[0], err)
	}
}

// probeKey is the key of CanWrite's write. It never exists.
const probeKey = "stock:probe"

// probe is a script, because sales are: a user may have the right to write, and not to run scripts. It needs the rights
// of a sale.
var probe = redisscript.New(`
for _, command in ipairs({'HMGET', 'HSET', 'HINCRBY', 'HGET', 'RPUSH', 'LINDEX', 'ZSCORE', 'ZCARD'}) do
  may(command, KEYS[1], '', '')
end
may('EXISTS', KEYS[1])
may('TIME')
return redis.call('SET', KEYS[1], '', 'XX')`)

// Evicts returns the policy by which Redis deletes keys that have not expired when its memory is full, or "" if it
// deletes none, or if the user may not ask.
func (r *Redis) Evicts(ctx context.Context) string {
	return EvictionPolicy(r.client.Info(ctx, "memory").Val())
}

// EvictionPolicy reads the policy in a reply of INFO memory; see Evicts.
func EvictionPolicy(info string) string {
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok && policy != "noeviction" {
			return policy
		}
	}
	return ""
}

// CanWrite is a health probe of one round trip. It sends a script whose write changes nothing, because its key does
// not exist. Redis checks it like any other write: a replica refuses it, and so does a Redis that is out of memory,
// cannot save or lacks replicas. In a Cluster it probes the node of one slot. Errors match lock.ErrDown.
func (r *Redis) CanWrite(ctx context.Context) error {
	err := probe.Run(ctx, r.client, []string{probeKey}).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return RedisFault(ctx, "write a probe", probeKey, err)
}

// sent reports whether a command that failed with err may have run. It has not run if there was no connection, or if
// Redis answered with an error (package rediserr has the exceptions). For every other error sent returns true, even if
// the server only failed to answer the HELLO on a new connection: both errors look the same, and true is the safe
// answer.
func sent(err error) bool {
	var answered redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answered):
		meaning, _ := rediserr.Of(err)
		return meaning.Outcome == rediserr.Unknown
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// go-redis returns these only while it waits for a connection. A deadline that passes on the socket is
		// os.ErrDeadlineExceeded.
		return false
	}
	return true
}

// slotMoving reports whether a cluster refused a command because it is moving the slot, so that the command has done
// nothing. go-redis follows MOVED and ASK a few times by itself; after such a reply the node has done nothing,
// either.
func slotMoving(err error) bool {
	meaning, _ := rediserr.Of(err)
	return meaning.Outcome == rediserr.Moving
}

// RedisFault converts the error of a failed request that wrote nothing.
func RedisFault(ctx context.Context, doing, key string, err error) error {
	var answered redis.Error
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		// All connections are busy, so our load is the reason, not the server.
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	if !errors.As(err, &answered) {
		if ctx.Err() != nil {
			return CtxEnded(ctx, doing)
		}
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			// The socket has the same deadline as ctx, and may report it a moment earlier.
			return driver.Down(doing, context.DeadlineExceeded)
		}
		return driver.Down(doing, err)
	}
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%s: key %s must be a hash, %s:orders a list and %s:settled a sorted set;"+
			" delete what is there and set the stock again: %w", doing, key, key, key, err)
	}
	if meaning, known := rediserr.Of(err); known {
		down := &driver.DownError{
			Server: "redis", Reason: meaning.Reason, Values: rediserr.Values(err), Full: meaning.Full,
			Denied: meaning.Denied(),
		}
		return fmt.Errorf("%s: %w: %w", doing, down, err)
	}
	return driver.Down(doing, err)
}
