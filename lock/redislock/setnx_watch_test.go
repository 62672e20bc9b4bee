package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// beforeExec does something between the GET and the transaction of a release, once.
type beforeExec struct {
	trips
	do    func()
	execs int
}

func (b *beforeExec) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" {
			if b.execs++; b.execs == 1 {
				b.do()
			}
		}
		return next(ctx, cmds)
	}
}

// What happens between the look and the deletion is noticed: GET and DEL without WATCH would delete another's key here.
func TestWatchNoticesWhatComesBetween(t *testing.T) {
	s := servers.Redis(t)
	for what, row := range map[string]struct {
		do    func(c redis.UniversalClient, name string)
		want  error
		execs int
		left  int64
	}{
		"another took it": {
			func(c redis.UniversalClient, name string) {
				c.Del(t.Context(), name)
				c.SetNX(t.Context(), name, "other", time.Minute)
			}, lock.ErrTaken, 1, 1,
		},
		"it ran out":                {func(c redis.UniversalClient, name string) { c.Del(t.Context(), name) }, lock.ErrExpired, 1, 0},
		"touched, but ours as ever": {func(c redis.UniversalClient, name string) { c.PExpire(t.Context(), name, time.Minute) }, nil, 2, 0},
		"nothing":                   {func(redis.UniversalClient, string) {}, nil, 1, 0},
	} {
		t.Run(what, func(t *testing.T) {
			c, key := client(t, s), locktest.FreshKey()
			name := "setnx-watch:{" + key + "}"
			hook := &beforeExec{do: func() { row.do(client(t, s), name) }}
			c.AddHook(hook)
			lease := acquire(t, closer(t, redislock.NewSetNXWatch(c, redislock.SetNXOptions{})), key)
			if err := lease.Release(); !errors.Is(err, row.want) {
				t.Errorf("release: %v, want %v", err, row.want)
			}
			if hook.execs != row.execs {
				t.Errorf("%d transactions, want %d", hook.execs, row.execs)
			}
			if left := c.Exists(t.Context(), name).Val(); left != row.left {
				t.Errorf("%d keys left, want %d", left, row.left)
			}
		})
	}
}
