package selltest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// BenchmarkSegmented sells one SKU to 30 clients of two instances, under one lock and from segments, with and
// without something to think about in the lock. It prints sales per second, and how many times as many those of
// "one lock" it is.
func BenchmarkSegmented(b *testing.B) {
	for name, open := range map[string]func(testing.TB) shop{
		"redis": func(t testing.TB) shop { return redisStore(t) },
		"mysql": func(t testing.TB) shop { return mysqlStore(t) },
	} {
		for _, think := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond} {
			store := open(b)
			under := func(seller func(lock.Locker) service.Seller) []service.Seller {
				sellers := make([]service.Seller, 2)
				for i := range sellers {
					l := redislock.NewWatchdog(dial(b, servers.Redis(b).Addr), redislock.WatchdogOptions{})
					b.Cleanup(func() { _ = l.Close() })
					sellers[i] = seller(lock.HandOver(l, lock.Bound{}))
				}
				return sellers
			}
			one := under(service.UnderLock)
			var base float64
			for _, row := range []struct {
				name    string
				sellers []service.Seller
			}{
				{"one-lock", one},
				{"segments=2", under(func(l lock.Locker) service.Seller { return segmented(l, 2) })},
				{"segments=8", under(func(l lock.Locker) service.Seller { return segmented(l, 8) })},
				{"segments=16", under(func(l lock.Locker) service.Seller { return segmented(l, 16) })},
			} {
				b.Run(fmt.Sprintf("%s/think=%v/%s", name, think, row.name), func(b *testing.B) {
					scenes := []*scene{stage(b, row.sellers[0], store), stage(b, row.sellers[1], store)}
					if _, err := scenes[0].SetStock(b.Context(), "", scenes[0].sku, service.MaxStock); err != nil {
						b.Fatal(err)
					}
					rate := sellMany(b, scenes, think)
					if row.name == "one-lock" {
						base = rate
					}
					b.ReportMetric(rate, "sales/s")
					b.ReportMetric(rate/base, "x-one-lock")
				})
			}
		}
	}
}

// sellMany sells b.N units to 30 clients, and returns the rate.
func sellMany(b *testing.B, scenes []*scene, think time.Duration) float64 {
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	began := time.Now()
	var clients sync.WaitGroup
	for i := range 30 {
		clients.Go(func() {
			for range work {
				if _, err := scenes[i%2].sell(b.Context(), lab(service.Lab{Hold: think})); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	return float64(b.N) / time.Since(began).Seconds()
}
