package redislock

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// acks is how many replicas must have acknowledged what a script wrote before it counts. The zero value asks none.
//
// WAIT (https://redis.io/docs/latest/commands/wait/) is not consensus. It makes it likelier that a lock survives the end of its master: each
// replica that has acknowledged has the key. It does not promise that one of those is promoted (ask for all replicas, or for so many that the
// others cannot be a majority of what may be promoted), nor that the acknowledged key is on the disk of anybody, nor that a master
// that was cut off is not asked by others who have not heard of its end: it then cannot grant, but what it granted before runs on. And an
// acquisition that is refused for want of acknowledgements may have reached some replica: if that one is promoted before it hears of
// the release, nobody has the lock until its lease runs out. Only the fence keeps a second holder from writing.
type acks struct {
	replicas int
	timeout  time.Duration
}

func newAcks(replicas int, timeout, lease time.Duration) acks {
	if timeout == 0 {
		timeout = min(500*time.Millisecond, lease/6)
	}
	return acks{replicas, timeout}
}

// run runs a script, and in the same round trip, on the same connection, waits for the replicas. short says that too few have acknowledged;
// it means something only if the script has granted something.
func (a acks) run(
	ctx context.Context, o lock.Options, c redis.UniversalClient, script *script, keys []string, args ...any,
) (reply *redis.Cmd, short error) {
	if a.replicas == 0 {
		return script.run(ctx, c, keys, args...), nil
	}
	// The client follows a key to another node by itself, but not for a pipeline to one node.
	reply = patiently(ctx, c, func() *redis.Cmd {
		reply, short = a.ask(ctx, o, c, keys[0], func(p redis.Pipeliner) *redis.Cmd {
			return script.evalSHA(ctx, p, keys, args)
		})
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply, short = a.ask(ctx, o, c, keys[0], func(p redis.Pipeliner) *redis.Cmd {
				return script.eval(ctx, p, keys, args)
			})
		}
		return reply
	})
	return reply, short
}

func (a acks) ask(ctx context.Context, o lock.Options, c redis.UniversalClient, key string, script func(redis.Pipeliner) *redis.Cmd) (reply *redis.Cmd, short error) {
	var one redis.Cmdable = c
	if cluster, ok := c.(*redis.ClusterClient); ok {
		// WAIT has no key by which the client would know where to send it.
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			reply = redis.NewCmd(ctx)
			reply.SetErr(err)
			return reply, nil
		}
		one = master
	}
	var acknowledged *redis.Cmd
	_, _ = one.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply = script(p)
		acknowledged = p.Do(ctx, "WAIT", a.replicas, a.timeout.Milliseconds())
		return nil
	})
	switch n, err := acknowledged.Int(); {
	case err != nil:
		return reply, failure(ctx, o, "wait for the replicas of "+key, err)
	case n < a.replicas:
		return reply, &lock.DownError{Server: "redis", Reason: fmt.Sprintf(
			"%d of the %d replicas that lock.replicas asks for acknowledged the lock within %v; see that they follow (INFO replication), or ask for fewer",
			n, a.replicas, a.timeout)}
	}
	return reply, nil
}
