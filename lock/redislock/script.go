package redislock

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// once is a command that is sent one time, whatever the client's MaxRetries and MaxRedirects say.
//
// A client of Redis Cluster repeats by itself what got no answer, on the same node and then on another, up to three
// times; a plain one does so unless it is told not to (MaxRetries -1). A lock cannot have that. The release that ran
// finds the key gone when it runs again, and says that the lock had been lost; an eviction that ran takes the lock from
// the next holder as well. What got no answer is unknown here, and the caller's to settle: see recall.
//
// MOVED and ASK are followed all the same: a node that answers so has done nothing.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis; of a pipeline one such command is enough.
func (once) NoRetry() bool { return true }

func sendOnce(ctx context.Context, c processor, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, once{cmd}) // the error is cmd's, too
	return cmd
}

// A processor is a client or a pipeline.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A script is Lua source. What is sent is its digest, and the source where Redis does not know it. All its keys are in
// KEYS and of one slot, so that a node of a cluster whose slots are being moved can tell whether it has them: if only
// some, it says TRYAGAIN and does nothing.
type script struct{ source, digest string }

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source))
	return &script{source, hex.EncodeToString(sum[:])}
}

// run runs s once, and again only what cannot have begun; see patiently.
func (s *script) run(ctx context.Context, c redis.UniversalClient, keys []string, args ...any) *redis.Cmd {
	return patiently(ctx, c, func() *redis.Cmd {
		reply := s.evalSHA(ctx, c, keys, args)
		if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
			reply = s.eval(ctx, c, keys, args)
		}
		return reply
	})
}

func (s *script) evalSHA(ctx context.Context, c processor, keys []string, args []any) *redis.Cmd {
	return s.send(ctx, c, "evalsha", s.digest, keys, args)
}

func (s *script) eval(ctx context.Context, c processor, keys []string, args []any) *redis.Cmd {
	return s.send(ctx, c, "eval", s.source, keys, args)
}

func (s *script) send(ctx context.Context, c processor, command, body string, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), command, body, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	_ = c.Process(ctx, once{cmd}) // the error is cmd's, too
	return cmd
}

// movingPause is the first pause between tries while a slot is moved, and movingTime how long it is tried. MIGRATE
// moves ten keys at a time, so that those of one lock are apart for milliseconds.
const (
	movingPause = 10 * time.Millisecond
	movingTime  = time.Second
)

// patiently asks again what a node of a cluster refused to begin, because the keys are on their way to another; and
// once more where there was no connection, because the cluster may have another node in the place of a dead one.
func patiently(ctx context.Context, c redis.UniversalClient, ask func() *redis.Cmd) *redis.Cmd {
	cluster, isCluster := c.(*redis.ClusterClient)
	pause := movingPause
	for try, began := 0, time.Now(); ; try++ {
		reply := ask()
		switch err := reply.Err(); {
		case !isCluster, time.Since(began) > movingTime:
			return reply
		case try == 0 && unsent(err):
			pause = 10 * movingPause // the client asks for the layout in the background
		case !moving(err):
			return reply
		}
		cluster.ReloadState(ctx)
		if lock.Sleep(ctx, pause) != nil {
			return reply
		}
		pause = min(2*pause, 10*movingPause)
	}
}

// moving is whether a node did nothing because it does not have the keys, or not all of them.
func moving(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") || redis.HasErrorPrefix(err, "TRYAGAIN")
}

// unsent is whether there was no connection to send a request on.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
