package redislock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

func TestAllOfWatchdog(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	open := func() lock.Locker { return watchdog(t, s, redislock.WatchdogOptions{}) }
	locktest.Carts(t, true, [2]lock.Locker{open(), open()})
}

// A watchdog that finds one of its keys gone ends the work of all.
func TestAllOfWatchdogEndsWithOneLoss(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	l, c := watchdog(t, s, redislock.WatchdogOptions{Lease: 3 * time.Second}), client(t, s)
	keys := []string{t.Name() + "-a", t.Name() + "-b"}
	err := lock.All(t.Context(), l, keys, lock.Options{}, func(ctx context.Context, _ map[string]lock.Fence) error {
		if n, err := c.Del(t.Context(), "watchdog:{"+keys[0]+"}").Result(); err != nil || n == 0 && ctx.Err() == nil {
			t.Fatalf("%d keys of the lock, %v", n, err)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
			return errors.New("the work was not ended")
		}
	})
	if !errors.Is(err, lock.ErrLost) {
		t.Fatalf("err = %v, want ErrLost", err)
	}
	err = lock.All(t.Context(), l, keys, lock.Options{TryOnce: true},
		func(context.Context, map[string]lock.Fence) error { return nil })
	if err != nil {
		t.Errorf("the keys are not free: %v", err)
	}
}
