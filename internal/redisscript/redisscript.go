// Package redisscript sends Lua scripts to Redis, each request one time.
package redisscript

import (
	"context"
	"crypto/sha1"
	"encoding/hex"

	"github.com/redis/go-redis/v9"
)

// A Script is Lua source and its digest. All its keys must be in KEYS and share one slot: a node of a cluster whose
// slots are being moved can then check whether it has all of them. If it has only some, it answers TRYAGAIN and does
// nothing.
type Script struct{ Source, Digest string }

// New returns the script of source.
func New(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source, hex.EncodeToString(sum[:])}
}

// A Sender is a client or a pipeline.
type Sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run sends the digest, and the source only if Redis does not know the digest: then it has done nothing, so the second
// request repeats nothing. The reply of the script must not begin with NOSCRIPT.
func (s *Script) Run(ctx context.Context, c Sender, keys []string, args ...any) *redis.Cmd {
	reply := s.EvalSHA(ctx, c, keys, args)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		return s.Eval(ctx, c, keys, args)
	}
	return reply
}

// EvalSHA sends the digest.
func (s *Script) EvalSHA(ctx context.Context, c Sender, keys []string, args []any) *redis.Cmd {
	return eval(ctx, c, "evalsha", s.Digest, keys, args)
}

// Eval sends the source.
func (s *Script) Eval(ctx context.Context, c Sender, keys []string, args []any) *redis.Cmd {
	return eval(ctx, c, "eval", s.Source, keys, args)
}

func eval(ctx context.Context, c Sender, command, body string, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), command, body, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return send(ctx, c, cmd)
}

// Send sends a command one time.
func Send(ctx context.Context, c Sender, args ...any) *redis.Cmd {
	return send(ctx, c, redis.NewCmd(ctx, args...))
}

func send(ctx context.Context, c Sender, cmd *redis.Cmd) *redis.Cmd {
	_ = c.Process(ctx, Once{cmd}) // the error is in cmd, too
	return cmd
}

// Once is a command that go-redis sends one time, whatever the client's MaxRetries is.
//
// By default go-redis repeats a request that got no answer. That is wrong for stock: a script that has run would sell
// twice, and if the server refuses the repetition, its error says "not sent" although the first request may have been
// written. It is wrong for locks: a repeated release finds the key gone and reports a loss, and a repeated eviction
// takes the lock from the next holder as well. So the outcome of a request without an answer is unknown, and the caller
// decides what to do. MOVED and ASK are still followed, because a node that answers so has done nothing.
type Once struct{ *redis.Cmd }

// NoRetry makes go-redis not repeat the command, nor a pipeline that contains it.
func (Once) NoRetry() bool { return true }
