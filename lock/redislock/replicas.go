package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver"
)

// Replicas says how many replicas of the server must acknowledge a grant or a renewal (WAIT) before it counts. If too
// few do so in time, an acquisition gives the lock back and returns ErrDown, and a renewal is retried until the lease
// runs out. Without them, there may be a second holder after a fail-over to a replica that did not have the lock yet.
//
// WAIT (https://redis.io/docs/latest/commands/wait/) is not consensus. It makes it likelier that a lock survives the
// end of its master, because each replica that has acknowledged has the key. It does not promise
//   - that one of those replicas is promoted. Require all replicas, or so many that the other replicas are fewer than
//     half of those that may be promoted. But the more there are, the likelier the failure of one blocks all callers;
//   - that the acknowledged key is on a disk;
//   - that clients stop using a master that was cut off. Such a master can grant nothing more, but its earlier grants
//     continue.
//
// An acquisition that failed because too few replicas acknowledged may have reached some replica. If this replica is
// promoted before it receives the release, no caller gets the lock until the lease runs out. Only the fence stops the
// writes of an older holder.
type Replicas struct {
	Number int // default 0: none must acknowledge
	// Timeout must be shorter than the client's ReadTimeout; default 500 ms, or a sixth of the lease if that is less.
	Timeout time.Duration
}

// grant runs a script that grants a lease, and waits for the replicas, in one round trip on one connection. It is not
// bounded by ctx; see ask.
func (s *server) grant(ctx context.Context, call call) granted {
	if s.replicas.Number == 0 {
		return granted{reply: send(ctx, s.client, call.script, call.keys, call.args...)}
	}
	// A pipeline goes to one node, and the client does not follow a key that has moved to another node.
	var got granted
	retryUnstarted(ctx, s.client, func() *redis.Cmd {
		got = s.acknowledged(ctx, call.keys[0], func(p redis.Pipeliner) *redis.Cmd {
			return call.script.EvalSHA(ctx, p, call.keys, call.args)
		})
		if redis.HasErrorPrefix(got.reply.Err(), "NOSCRIPT") {
			got = s.acknowledged(ctx, call.keys[0], func(p redis.Pipeliner) *redis.Cmd {
				return call.script.Eval(ctx, p, call.keys, call.args)
			})
		}
		return got.reply
	})
	return got
}

// A granted is the reply of a script that grants a lease. If the script has granted one, and short is not nil, the
// lease does not count: too few replicas have acknowledged it.
type granted struct {
	reply *redis.Cmd
	short error
}

func (s *server) acknowledged(ctx context.Context, key string, script func(redis.Pipeliner) *redis.Cmd) granted {
	var node redis.Cmdable = s.client
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		// WAIT has no key, so the client cannot choose the node for it.
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			reply := redis.NewCmd(ctx)
			reply.SetErr(err)
			return granted{reply: reply}
		}
		node = master
	}
	must, timeout := s.replicas.Number, s.replicas.Timeout
	def(&timeout, min(500*time.Millisecond, s.lease/6))
	var reply, wait *redis.Cmd
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply, wait = script(p), p.Do(ctx, "WAIT", must, timeout.Milliseconds())
		return nil
	})
	n, err := wait.Int()
	if err != nil {
		return granted{reply, unanswered(ctx, "wait for the replicas of "+key, err)}
	}
	if n < must {
		return granted{reply, driver.NewDown("redis", "too-few-acknowledged", "n", n, "asked", must,
			"limit", timeout.String())}
	}
	return granted{reply: reply}
}
