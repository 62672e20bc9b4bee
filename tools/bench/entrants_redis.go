package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const lease = 30 * time.Second

// redisClient returns the client of a Go entrant, with the options of the service.
func redisClient(t task) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: t.Redis, PoolSize: 64, ContextTimeoutEnabled: true, MaxRetries: -1,
		DialTimeout: time.Second, DialerRetries: 1, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second,
		PoolTimeout: 2 * time.Second,
	})
}

func counterOf(key string) string { return "count:" + key }

// count is the work: one GET, one SET. Without mutual exclusion it loses updates.
func (t task) count(ctx context.Context, c *redis.Client, key string) error {
	if t.Idle {
		return nil
	}
	n, err := c.Get(ctx, counterOf(key)).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return c.Set(ctx, counterOf(key), n+1, 0).Err()
}

func openNone(_ context.Context, t task) ([]turn, error) {
	c := redisClient(t)
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		err := t.count(ctx, c, key)
		return err == nil, err
	}), nil
}

// spin tries every millisecond until it has the lock.
func spin(ctx context.Context, try func() (bool, error)) error {
	for {
		if ok, err := try(); ok || err != nil {
			return err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func openSpin(_ context.Context, t task) ([]turn, error) {
	c := redisClient(t)
	free := redis.NewScript(
		`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		token := rand.Text()
		if err := spin(ctx, func() (bool, error) { return c.SetNX(ctx, key, token, lease).Result() }); err != nil {
			return false, err
		}
		if err := t.count(ctx, c, key); err != nil {
			return false, err
		}
		return true, free.Run(ctx, c, []string{key}, token).Err()
	}), nil
}

// The scripts of openSmallest do what any lock with fence and queue does on Redis if nobody else wants the key. They
// are no such lock: nobody joins the queue, and a fence is not carried to a write.
const (
	smallestEnter = `
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('LLEN', KEYS[3]) > 0 then return false end
local now = redis.call('TIME')
local fence = math.max(now[1] * 1000000 + now[2], (tonumber(redis.call('GET', KEYS[2])) or 0) + 1)
local text = string.format('%.0f', fence)
redis.call('SET', KEYS[2], text, 'PX', 86400000)
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return text`
	smallestLeave = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('LLEN', KEYS[3]) > 0 then return -1 end
return redis.call('DEL', KEYS[1])`
)

func openSmallest(_ context.Context, t task) ([]turn, error) {
	c := redisClient(t)
	enter, leave := redis.NewScript(smallestEnter), redis.NewScript(smallestLeave)
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		token, keys := rand.Text(), []string{key, key + ":fence", key + ":queue"}
		err := spin(ctx, func() (bool, error) {
			err := enter.Run(ctx, c, keys, token, lease.Milliseconds()).Err()
			if errors.Is(err, redis.Nil) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return false, err
		}
		if err := t.count(ctx, c, key); err != nil {
			return false, err
		}
		return true, leave.Run(ctx, c, keys, token).Err()
	}), nil
}

func openRedislock(_ context.Context, t task) ([]turn, error) {
	c := redisClient(t)
	locks := redislock.New(c)
	// Without a strategy of its own each Obtain stops at the lease; the wait is bounded by ctx here.
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)}
	return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
		l, err := locks.Obtain(ctx, key, lease, options)
		if err != nil {
			return false, err
		}
		if err := t.count(ctx, c, key); err != nil {
			return false, errors.Join(err, l.Release(ctx))
		}
		return true, l.Release(ctx)
	}), nil
}

func openRedsync(eager bool) func(context.Context, task) ([]turn, error) {
	return func(_ context.Context, t task) ([]turn, error) {
		c := redisClient(t)
		locks := redsync.New(redsyncpool.NewPool(c))
		var options []redsync.Option
		if eager {
			options = []redsync.Option{redsync.WithRetryDelay(time.Millisecond), redsync.WithTries(1 << 20)}
		}
		return alike(t.Contenders, func(ctx context.Context, key string) (bool, error) {
			m := locks.NewMutex(key, options...)
			if err := m.LockContext(ctx); err != nil {
				return false, err
			}
			err := t.count(ctx, c, key)
			_, freed := m.UnlockContext(ctx)
			return err == nil, errors.Join(err, freed)
		}), nil
	}
}
