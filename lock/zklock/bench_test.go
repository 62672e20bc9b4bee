package zklock

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// BenchmarkAcquireRelease is the plain locks, without lock.HandOver, for benchstat. Contenders are of 3 sessions.
// Beside the time, it tells how often a waiter was woken for each acquisition.
//
//	go test ./lock/zklock -run '^$' -bench AcquireRelease -count 10 | tee new.txt && benchstat old.txt new.txt
func BenchmarkAcquireRelease(b *testing.B) {
	host := Servers.ZooKeeper(b)
	for _, k := range kinds() {
		for _, contenders := range []int{1, 2, 30} {
			b.Run(fmt.Sprintf("strategy=%s/contenders=%d", k.name, contenders), func(b *testing.B) {
				var lockers []lock.Locker
				for range min(contenders, 3) {
					lockers = append(lockers, k.open(dial(b, host)))
				}
				key := keyOf(b)
				var wakeups, rounds atomic.Int64
				counted := lock.Options{OnWake: func() { wakeups.Add(1) }}
				round := func(l lock.Locker) {
					lease, err := l.Acquire(b.Context(), key, counted)
					if err == nil {
						err = lease.Release()
					}
					if err != nil {
						b.Error(err)
					}
				}
				round(lockers[0]) // makes the folder
				wakeups.Store(0)
				b.ReportAllocs()
				b.ResetTimer()
				var all sync.WaitGroup
				for i := range contenders {
					all.Go(func() {
						for rounds.Add(1) <= int64(b.N) {
							round(lockers[i%len(lockers)])
						}
					})
				}
				all.Wait()
				b.ReportMetric(float64(wakeups.Load())/float64(b.N), "wakeups/op")
			})
		}
	}
}

// BenchmarkAgainstLock compares with the client library's own lock, by turns within one run: the median of the ratios
// holds on a busy computer, where the times do not. Below 1 is faster than it.
//
//	go test ./lock/zklock -run '^$' -bench . -benchtime 20x
func BenchmarkAgainstLock(b *testing.B) {
	host := Servers.ZooKeeper(b)
	for _, row := range []struct {
		name                 string
		contenders, sessions int
	}{
		{"uncontended", 1, 1},
		{"2 contenders", 2, 2},
		{"30 contenders of 3 sessions", 30, 3},
	} {
		b.Run(row.name, func(b *testing.B) {
			var ours []*Sequential
			var theirs []*zk.Conn
			for range row.sessions {
				ours, theirs = append(ours, NewSequential(dial(b, host))), append(theirs, raw(b, host))
			}
			const rounds = 300
			took := func(round func(i int) error) time.Duration {
				from := time.Now()
				var contenders sync.WaitGroup
				for i := range row.contenders {
					contenders.Go(func() {
						for range rounds / row.contenders {
							if err := round(i); err != nil {
								b.Error(err)
							}
						}
					})
				}
				contenders.Wait()
				return time.Since(from)
			}
			sequential := func(i int) error {
				lease, err := ours[i%row.sessions].Acquire(b.Context(), keyOf(b), lock.Options{})
				if err != nil {
					return err
				}
				return lease.Release()
			}
			library := func(i int) error {
				l := zk.NewLock(theirs[i%row.sessions], folderOf(b), zk.WorldACL(zk.PermAll))
				if err := l.Lock(); err != nil {
					return err
				}
				return l.Unlock()
			}
			for range 5 { // for the server's compiler
				took(sequential)
				took(library)
			}
			var ratios []float64
			var sum time.Duration
			for b.Loop() {
				a, z := took(sequential), took(library)
				ratios = append(ratios, float64(a)/float64(z))
				sum += a
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-Lock")
			b.ReportMetric(float64(sum.Microseconds())/float64(rounds*len(ratios)), "us/turn")
			b.ReportMetric(0, "ns/op")
		})
	}
}
