package selltest

import (
	"fmt"
	"sync"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// BenchmarkDeduct is a sale of one unit of one SKU by each way to write that is no lock, and by segments, with
// nothing to think about between read and write. What "none" costs is what the others are to be compared with; what
// it loses is not shown.
//
//	go test ./service/selltest -run '^$' -bench Deduct -count 10 | benchstat -col /store -
func BenchmarkDeduct(b *testing.B) {
	watch := func(b *testing.B) lock.Locker {
		l := redislock.NewWatchdog(dial(b, servers.Redis(b).Addr), redislock.WatchdogOptions{})
		b.Cleanup(func() { _ = l.Close() })
		return lock.HandOver(l, lock.Bound{})
	}
	for _, row := range []struct {
		strategy string
		seller   func(b *testing.B) service.Seller
		stores   []string
	}{
		{
			"none", func(*testing.B) service.Seller { return service.UnderLock(local.None{}) },
			[]string{"redis", "mysql"},
		},
		{"segmented", func(b *testing.B) service.Seller { return segmented(watch(b), 8) }, []string{"redis", "mysql"}},
		{"pessimistic", func(*testing.B) service.Seller { return service.InTransaction }, []string{"mysql"}},
		{
			"optimistic",
			func(*testing.B) service.Seller { return service.Optimistically(service.OptimisticOptions{}) },
			[]string{"redis", "mysql"},
		},
		{"atomic", func(*testing.B) service.Seller { return service.Atomically }, []string{"redis", "mysql"}},
		{
			"merged", func(*testing.B) service.Seller { return service.Merged(service.MergeOptions{}) },
			[]string{"redis", "mysql"},
		},
	} {
		for _, contenders := range []int{1, 30, 256} {
			for _, store := range row.stores {
				b.Run(
					fmt.Sprintf("strategy=%s/contenders=%d/store=%s", row.strategy, contenders, store),
					func(b *testing.B) {
						var kept shop = redisStore(b)
						if store == "mysql" {
							kept = mysqlStore(b)
						}
						s := stage(b, row.seller(b), kept)
						if _, err := s.SetStock(b.Context(), "", s.sku, service.MaxStock); err != nil {
							b.Fatal(err)
						}
						contend(b, contenders, func() error {
							_, err := s.sell(b.Context())
							return err
						})
					},
				)
			}
		}
	}
}

// contend calls sell b.N times, from that many goroutines.
func contend(b *testing.B, contenders int, sell func() error) {
	b.Helper()
	sales := make(chan struct{}, b.N)
	for range b.N {
		sales <- struct{}{}
	}
	close(sales)
	b.ResetTimer()
	var all sync.WaitGroup
	for range contenders {
		all.Go(func() {
			for range sales {
				if err := sell(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sold/s")
}
