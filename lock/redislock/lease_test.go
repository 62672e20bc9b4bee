package redislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// SETNX and the watchdog differ by renewal alone: with work longer than the lease one is lost and the other is not.
func TestRenewal(t *testing.T) {
	const lease = 3 * time.Second // leaves the holder 32 ms: a busy computer runs timers late
	both(t, lease, func(t *testing.T, s *stack.Server, c redis.UniversalClient, l lock.Locker, name string) {
		held := acquire(t, l, "k")
		select {
		case <-held.Done():
			if strings.Contains(t.Name(), "watchdog") {
				t.Errorf("the watchdog's lease was lost: %v", held.Err())
			}
			if !errors.Is(held.Err(), lock.ErrExpired) {
				t.Errorf("err = %v, want ErrExpired", held.Err())
			}
			if c.Exists(t.Context(), name+":{k}").Val() != 1 && !toldInTime(t, s, c) {
				t.Error("the holder learnt of the loss only after the server had freed the key")
			}
		case <-time.After(3 * lease):
			if strings.Contains(t.Name(), "setnx") {
				t.Error("no loss was signalled for a lease that was not renewed")
			}
			if ttl := c.PTTL(t.Context(), name+":{k}").Val(); ttl <= 0 || ttl > lease {
				t.Errorf("PTTL = %v after three leases", ttl)
			}
		}
	})
}

// toldInTime is whether the holder of a longer lease, which leaves more time to look, learns of its loss before the server frees the key.
func toldInTime(t *testing.T, s *stack.Server, c redis.UniversalClient) bool {
	t.Helper()
	for _, lease := range []time.Duration{6 * time.Second, 12 * time.Second} {
		_ = awaitLoss(t, acquire(t, setnx(t, s, lease), "k"))
		if c.Exists(t.Context(), "lock:{k}").Val() == 1 {
			return true
		}
	}
	return false
}

func TestMaximumHold(t *testing.T) {
	s := stacktest.Redis(t)
	w := watchdog(t, s, redislock.WatchdogOptions{Lease: time.Second, MaxHold: 3 * time.Second})
	if err := awaitLoss(t, acquire(t, w, "k")); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("err = %v, want ErrExpired", err)
	}
	acquire(t, watchdog(t, s, redislock.WatchdogOptions{}), "k") // the hung holder does not keep it
}

// Whoever deletes or takes the key under a watchdog is noticed at the next renewal.
func TestTheWatchdogNotices(t *testing.T) {
	for name, row := range map[string]struct {
		harm func(context.Context, redis.UniversalClient)
		want error
	}{
		"the key is gone (FLUSHALL, eviction)": {func(ctx context.Context, c redis.UniversalClient) { c.FlushAll(ctx) }, lock.ErrExpired},
		"another took it":                      {func(ctx context.Context, c redis.UniversalClient) { c.Set(ctx, "watchdog:{k}", "other", 0) }, lock.ErrTaken},
	} {
		t.Run(name, func(t *testing.T) {
			s := stacktest.Redis(t)
			c := client(t, s)
			lease := acquire(t, watchdog(t, s, redislock.WatchdogOptions{Lease: 3 * time.Second}), "k")
			row.harm(t.Context(), c)
			if err := awaitLoss(t, lease); !errors.Is(err, lock.ErrLost) || !errors.Is(err, row.want) {
				t.Errorf("err = %v, want ErrLost and %v", err, row.want)
			}
			before := c.Get(t.Context(), "watchdog:{k}").Val()
			_ = lease.Release()
			if after := c.Get(t.Context(), "watchdog:{k}").Val(); after != before {
				t.Errorf("the release changed a key that was not its own: %q to %q", before, after)
			}
		})
	}
}
