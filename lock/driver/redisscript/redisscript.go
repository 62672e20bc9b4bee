// Package redisscript sends Lua scripts to Redis, and never repeats a request that Redis may have executed.
package redisscript

import (
	"context"
	"crypto/sha1"
	_ "embed" // may.lua
	"encoding/hex"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Script is Lua source and its digest. All keys of a script must be in KEYS and share one slot, so that a node of a
// cluster that is moving the slot can check whether it has all of them. If it does not, it answers TRYAGAIN and does
// nothing.
type Script struct {
	Source string
	digest any // a string; converted once, and not for each request
}

//go:embed may.lua
var mayLua string

// New returns the script of source. If source calls may, New puts the function of may.lua in front of it.
func New(source string) *Script {
	if strings.Contains(source, "may(") {
		source = mayLua + source
	}
	sum := sha1.Sum([]byte(source))
	return &Script{source, hex.EncodeToString(sum[:])}
}

// A Sender is a client or a pipeline.
type Sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Run sends the digest, and then the source if Redis does not know the digest. In that case the first request has done
// nothing, so the second repeats nothing. An error of the script itself must not begin with NOSCRIPT.
func (s *Script) Run(ctx context.Context, c Sender, keys []string, args ...any) *redis.Cmd {
	reply := s.EvalSHA(ctx, c, keys, args)
	if err := reply.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return s.Eval(ctx, c, keys, args)
	}
	return reply
}

// EvalSHA sends the digest of s.
func (s *Script) EvalSHA(ctx context.Context, c Sender, keys []string, args []any) *redis.Cmd {
	return eval(ctx, c, "evalsha", s.digest, keys, args)
}

// Eval sends the source of s.
func (s *Script) Eval(ctx context.Context, c Sender, keys []string, args []any) *redis.Cmd {
	return eval(ctx, c, "eval", s.Source, keys, args)
}

func eval(ctx context.Context, c Sender, command, body any, keys []string, args []any) *redis.Cmd {
	all := append(make([]any, 0, 3+len(keys)+len(args)), command, body, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	return send(ctx, c, cmd)
}

// Send sends a command once.
func Send(ctx context.Context, c Sender, args ...any) *redis.Cmd {
	return send(ctx, c, redis.NewCmd(ctx, args...))
}

func send(ctx context.Context, c Sender, cmd *redis.Cmd) *redis.Cmd {
	_ = c.Process(ctx, Once{cmd}) // cmd has the error, too
	return cmd
}

// Once is a command that go-redis sends once, whatever the client's MaxRetries is.
//
// By default go-redis repeats a request that got no reply. For stock that is wrong, because a script that has run would
// sell twice; and if the server refuses the repeat, the error suggests that nothing was written, although the first
// request may have been. For locks it is wrong, because a repeated release finds no key and reports a loss, and a
// repeated eviction also takes the lock from the next holder. With Once the outcome of such a request is unknown, and
// the caller decides. go-redis still follows MOVED and ASK, because a node that answers so has done nothing.
type Once struct{ *redis.Cmd }

// NoRetry tells go-redis not to repeat the command, or a pipeline that contains it.
func (Once) NoRetry() bool { return true }
