package redislock_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// BenchmarkAcquireRelease takes a lock of one key and gives it back; 30 contenders are 3 processes of 10, as far as
// the lock can tell. With more than one the time is that from one holder to the next.
//
//	go test ./lock/redislock -run '^$' -bench AcquireRelease -count 10 | tee new.txt && benchstat old.txt new.txt
func BenchmarkAcquireRelease(b *testing.B) {
	single := func(open func(testing.TB, redis.UniversalClient) lock.Locker) func(*testing.B) func() lock.Locker {
		return func(b *testing.B) func() lock.Locker {
			s := servers.Redis(b)
			return func() lock.Locker { return open(b, client(b, s)) }
		}
	}
	for _, row := range []struct {
		strategy string // as in the catalogue
		servers  func(*testing.B) func() lock.Locker
	}{
		{"redis-setnx-expire", single(func(b testing.TB, c redis.UniversalClient) lock.Locker {
			return closer(b, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{}))
		})},
		{"redis-setnx-del", single(func(b testing.TB, c redis.UniversalClient) lock.Locker {
			return closer(b, redislock.NewSetNXDel(c, redislock.SetNXOptions{}))
		})},
		{"redis-setnx-watch", single(func(b testing.TB, c redis.UniversalClient) lock.Locker {
			return closer(b, redislock.NewSetNXWatch(c, redislock.SetNXOptions{}))
		})},
		{"redis-setnx", single(func(b testing.TB, c redis.UniversalClient) lock.Locker {
			return closer(b, redislock.NewSetNX(c, redislock.SetNXOptions{}))
		})},
		{"redis-watchdog", single(func(b testing.TB, c redis.UniversalClient) lock.Locker {
			return lock.HandOver(closer(b, redislock.NewWatchdog(c, redislock.WatchdogOptions{})), lock.Bound{})
		})},
		{"redis-watchdog-plain", single(func(b testing.TB, c redis.UniversalClient) lock.Locker { // without HandOver
			return closer(b, redislock.NewWatchdog(c, redislock.WatchdogOptions{}))
		})},
		{"redlock", func(b *testing.B) func() lock.Locker {
			m := fiveMasters(b)
			return func() lock.Locker { return m.redlock(b, redislock.RedlockOptions{}) }
		}},
	} {
		for _, contenders := range []int{1, 30} {
			b.Run(fmt.Sprintf("strategy=%s/contenders=%d", row.strategy, contenders), func(b *testing.B) {
				open := row.servers(b)
				locks := []lock.Locker{open()}
				if contenders > 1 {
					locks = append(locks, open(), open())
				}
				contend(b, locks, contenders, "bench-"+row.strategy)
			})
		}
	}
}

// contend has b.N turns taken by so many contenders, and reports how the slowest wait compares.
func contend(b *testing.B, locks []lock.Locker, contenders int, key string) {
	turn := func(l lock.Locker) {
		lease, err := l.Acquire(b.Context(), key, lock.Options{})
		if err == nil {
			err = lease.Release()
		}
		if err != nil {
			b.Error(err)
		}
	}
	for _, l := range locks { // connects and loads the scripts
		turn(l)
	}
	var left, slowest atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for i := range contenders {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				turn(locks[i%len(locks)])
				took := int64(time.Since(began))
				for was := slowest.Load(); took > was && !slowest.CompareAndSwap(was, took); was = slowest.Load() {
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	if contenders > 1 {
		b.ReportMetric(float64(slowest.Load())/1e6, "max-ms")
	}
}
