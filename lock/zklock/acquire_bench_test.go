package zklock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/stock/lock"
)

// BenchmarkAcquireRelease is the plain locks, without lock.HandOver, for benchstat. Contenders are of 3 sessions. Beside the time, it tells how
// often a waiter was woken for each turn.
//
//	go test ./lock/zklock -run '^$' -bench AcquireRelease -count 10 | tee new.txt && benchstat old.txt new.txt
func BenchmarkAcquireRelease(b *testing.B) {
	host := servers.ZooKeeper(b)
	for _, k := range kinds() {
		for _, contenders := range []int{1, 2, 30} {
			b.Run(fmt.Sprintf("strategy=%s/contenders=%d", k.name, contenders), func(b *testing.B) {
				var lockers []lock.Locker
				for range min(contenders, 3) {
					lockers = append(lockers, k.open(dial(b, host)))
				}
				key := keyOf(b)
				var wakeups, turns atomic.Int64
				counted := lock.Options{OnWake: func() { wakeups.Add(1) }}
				turn := func(l lock.Locker) {
					lease, err := l.Acquire(b.Context(), key, counted)
					if err == nil {
						err = lease.Release()
					}
					if err != nil {
						b.Error(err)
					}
				}
				turn(lockers[0]) // makes the folder
				wakeups.Store(0)
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				for i := range contenders {
					all.Go(func() {
						for turns.Add(1) <= int64(b.N) {
							turn(lockers[i%len(lockers)])
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(wakeups.Load())/float64(b.N), "wakeups/op")
			})
		}
	}
}
