package redislock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// A sight is what a key looked like to somebody who did not get it.
type sight struct {
	value string        // of the holder: token, blank, owner; empty: the key was gone again
	ttl   time.Duration // what remains; negative: no time limit, or the key was gone
}

// bid takes the key name if it is free, by SET NX, with a time limit if lease is not 0. In the same round trip it asks who
// has it: that is not one atomic step, but only the SET decides; the rest is for people to read.
// An error says nothing of the outcome unless it is refused.
func bid(ctx context.Context, c redis.UniversalClient, name, value string, lease time.Duration) (taken bool, other sight, err error) {
	var set *redis.Cmd
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		args := []any{"set", name, value}
		if lease > 0 {
			args = append(args, "px", lease.Milliseconds())
		}
		set = sendOnce(ctx, p, append(args, "nx")...)
		get = p.Get(ctx, name)
		pttl = p.PTTL(ctx, name)
		return nil
	})
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, sight{}, err
	}
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return false, sight{}, err // of another type: no lock
	}
	return false, sight{get.Val(), pttl.Val()}, nil
}

// held is s as an error.
func (s sight) held(key string) *lock.HeldError {
	_, who, _ := strings.Cut(s.value, " ")
	return &lock.HeldError{Key: key, Holder: who, Remaining: max(s.ttl, 0)}
}
