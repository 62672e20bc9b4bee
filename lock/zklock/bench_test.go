package zklock

import (
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"

	"github.com/go-zookeeper/zk"
)

// BenchmarkAgainstLock compares with the client library's own lock, in turns within one run: the median of the ratios holds on a
// busy computer, where the times do not. Below 1 is faster than it.
//
//	go test ./lock/zklock -run '^$' -bench . -benchtime 20x
func BenchmarkAgainstLock(b *testing.B) {
	host := servers.ZooKeeper(b)
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
			const turns = 300
			took := func(turn func(i int) error) time.Duration {
				from := time.Now()
				var contenders sync.WaitGroup
				for i := range row.contenders {
					contenders.Go(func() {
						for range turns / row.contenders {
							if err := turn(i); err != nil {
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
				l := zk.NewLock(theirs[i%row.sessions], folderOf(b), everyone())
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
			b.ReportMetric(float64(sum.Microseconds())/float64(turns*len(ratios)), "us/turn")
			b.ReportMetric(0, "ns/op")
		})
	}
}
