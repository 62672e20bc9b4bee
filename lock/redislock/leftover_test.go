package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// Thousands of acquisitions leave no key but the fence, and of waiters no subscription grows without end.
func TestNothingIsLeftBehind(t *testing.T) {
	both(t, 0, func(t *testing.T, _ *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		var all sync.WaitGroup
		for worker := range 8 {
			all.Go(func() {
				for i := range 250 {
					key := fmt.Sprint("k", (worker+i)%5)
					lease, err := l.Acquire(t.Context(), key, lock.Options{})
					if err != nil {
						t.Error(err)
						return
					}
					if err := lease.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, key := range c.Keys(t.Context(), "*").Val() {
			if !strings.HasSuffix(key, ":fence") {
				t.Errorf("left behind: %s", key)
			}
			if c.TTL(t.Context(), key).Val() <= 0 {
				t.Errorf("%s lives for ever", key)
			}
		}
	})
}

// Who stops waiting while the server is silent leaves nothing there, although the request is done later, and though Redis may do
// the release before it.
func TestACancelledRequestLeavesNothingBehind(t *testing.T) {
	sets := func(c redis.UniversalClient) string {
		_, after, _ := strings.Cut(c.Info(t.Context(), "commandstats").Val(), "cmdstat_set:calls=")
		calls, _, _ := strings.Cut(after, ",")
		return calls
	}
	test := func(name, key string, open func(testing.TB, redis.UniversalClient, redislock.SetNXOptions) lock.Locker) {
		t.Run(name, func(t *testing.T) {
			s := stacktest.Redis(t)
			c := client(t, s)
			l := open(t, slowClient(t, s), redislock.SetNXOptions{Lease: time.Minute})
			_ = acquire(t, l, "k").Release()
			before := sets(c)
			pause(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got := make(chan error, 1)
			go func() {
				_, err := l.Acquire(ctx, "k", lock.Options{})
				got <- err
			}()
			<-ctx.Done()
			time.Sleep(100 * time.Millisecond) // so that the caller is not there any more when the answer comes
			resume(t, s)
			if err := <-got; !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrDown) {
				t.Errorf("err = %v, want the cause of the wait's end", err)
			}
			eventually(t, "the request was done", func() bool { return sets(c) != before })
			eventually(t, "the key is gone", func() bool { return c.Exists(t.Context(), key).Val() == 0 })
		})
	}
	for _, kind := range byHand {
		test(kind.name, kind.name+":{k}", kind.open)
	}
	test("setnx", "lock:{k}", func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNX(c, o))
	})
}
