package request

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver"
)

// Grant runs a script that grants a lease, and waits for the replicas, in one round trip on one connection. If the
// script has granted a lease and short is not nil, too few replicas have acknowledged it, and it does not count.
// See Ask for underWay.
func (s *Server) Grant(ctx context.Context, underWay *atomic.Int32, c Call) (reply *redis.Cmd, short error) {
	type granted struct {
		reply *redis.Cmd
		short error
	}
	got, err := Ask(ctx, s.Client, underWay, func() (got granted) {
		if s.Replicas == 0 {
			got.reply = c.send(ctx, s.Client)
			return got
		}
		// A pipeline goes to one node, and the client does not follow a key that has moved to another node.
		retryUnstarted(ctx, s.Client, func() *redis.Cmd {
			got.reply, got.short = s.acknowledged(ctx, c, c.Script.EvalSHA)
			if redis.HasErrorPrefix(got.reply.Err(), "NOSCRIPT") {
				got.reply, got.short = s.acknowledged(ctx, c, c.Script.Eval)
			}
			return got.reply
		})
		return got
	})
	if err != nil {
		return failed(ctx, err), nil
	}
	return got.reply, got.short
}

func (s *Server) acknowledged(ctx context.Context, c Call, send sendScript) (reply *redis.Cmd, short error) {
	var node redis.Cmdable = s.Client
	if cluster, ok := s.Client.(*redis.ClusterClient); ok {
		// WAIT has no key, so the client cannot choose the node for it.
		master, err := cluster.MasterForKey(ctx, c.Keys[0])
		if err != nil {
			return failed(ctx, err), nil
		}
		node = master
	}
	timeout := cmp.Or(s.ReplicaTimeout, min(500*time.Millisecond, s.Lease/6))
	var wait *redis.Cmd
	_, _ = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		reply, wait = send(ctx, p, c.Keys, c.Args), p.Do(ctx, "WAIT", s.Replicas, timeout.Milliseconds())
		return nil
	})
	n, err := wait.Int()
	if err != nil {
		return reply, unanswered(ctx, "wait for the replicas of "+c.Keys[0], err)
	}
	if n < s.Replicas {
		return reply, driver.NewDown("redis", "too-few-acknowledged", "n", n, "asked", s.Replicas,
			"limit", timeout.String())
	}
	return reply, nil
}
