package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// Replicas returns an Acknowledgement by number replicas of the server within timeout, which must be shorter than the
// client's ReadTimeout; 0 is 500 ms, or a sixth of the lease if that is less. It returns nil if number is 0.
//
// WAIT (https://redis.io/docs/latest/commands/wait/) is not consensus. It makes it likelier that a lock survives the
// end of its master, because each replica that has acknowledged has the key. It does not promise
//   - that one of those replicas is promoted. Require all replicas, or so many that the other replicas are fewer than
//     half of those that may be promoted;
//   - that the acknowledged key is on a disk;
//   - that clients stop using a master that was cut off. Such a master can grant nothing more, but its earlier grants
//     continue.
//
// An acquisition that failed because too few replicas acknowledged may have reached some replica. If this replica is
// promoted before it receives the release, no caller gets the lock until the lease runs out. Only the fence stops the
// writes of an older holder.
func Replicas(number int, timeout time.Duration) Acknowledgement {
	if number == 0 {
		return nil
	}
	return replicas{number, timeout}
}

type replicas struct {
	number  int
	timeout time.Duration
}

// run runs a script and waits for the replicas, in one round trip on one connection. short is not nil if too few
// replicas have acknowledged. The caller must ignore short if the script has granted nothing.
func (r replicas) run(
	ctx context.Context, s *server, call call,
) (reply *redis.Cmd, short error) {
	if r.timeout == 0 {
		r.timeout = min(500*time.Millisecond, s.lease/6)
	}
	c := s.client
	// A pipeline goes to one node, and the client does not follow a key that has moved to another node.
	reply = retryUnstarted(ctx, c, func() *redis.Cmd {
		reply, short = r.wait(ctx, c, call.keys[0], func(p redis.Pipeliner) *redis.Cmd {
			return call.script.EvalSHA(ctx, p, call.keys, call.args)
		})
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply, short = r.wait(ctx, c, call.keys[0], func(p redis.Pipeliner) *redis.Cmd {
				return call.script.Eval(ctx, p, call.keys, call.args)
			})
		}
		return reply
	})
	return reply, short
}

func (r replicas) wait(
	ctx context.Context, c redis.UniversalClient, key string, script func(redis.Pipeliner) *redis.Cmd,
) (reply *redis.Cmd, short error) {
	var node redis.Cmdable = c
	if cluster, ok := c.(*redis.ClusterClient); ok {
		// WAIT has no key, so the client cannot choose the node for it.
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			reply = redis.NewCmd(ctx)
			reply.SetErr(err)
			return reply, nil
		}
		node = master
	}
	var acknowledged *redis.Cmd
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply = script(p)
		acknowledged = p.Do(ctx, "WAIT", r.number, r.timeout.Milliseconds())
		return nil
	})
	switch n, err := acknowledged.Int(); {
	case err != nil:
		return reply, unanswered(ctx, "wait for the replicas of "+key, err)
	case n < r.number:
		return reply, lock.NewDown("redis", "too-few-acknowledged", "n", n, "asked", r.number,
			"limit", r.timeout.String())
	}
	return reply, nil
}
