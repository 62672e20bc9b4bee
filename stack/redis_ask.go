package stack

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// askRedis sends one command on a connection of its own: the servers here are killed and paused, and none is asked often.
func askRedis(ctx context.Context, addr string, command ...any) *redis.Cmd {
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ContextTimeoutEnabled: true,
		DialTimeout: checkBound, ReadTimeout: checkBound, WriteTimeout: checkBound,
	})
	defer client.Close()
	return client.Do(ctx, command...)
}

// until asks until ok is nil. The error says what was waited for, and what was wrong at last.
func until(ctx context.Context, what string, ok func(context.Context) error) error {
	ticker := time.NewTicker(5 * checkEvery)
	defer ticker.Stop()
	var last error
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || last == nil {
			last = err // of a question that the end of ctx cut off nothing is learnt
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// bounded is ctx with the bound of a start, and ended by the stack's Stop.
func (s *Stack) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("not so within %v", startBound))
	ctx, giveUp := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.life, func() { giveUp(errStopped) })
	return ctx, func() { stop(); giveUp(nil); cancel() }
}

// abandon stops servers of a group that did not come about, and joins what is wrong with that to err.
func (s *Stack) abandon(err error, servers []*Server) error {
	for _, server := range servers {
		err = errors.Join(err, s.drop(server))
	}
	return err
}
