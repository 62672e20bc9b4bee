package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// BenchmarkLedgerSteps compares ways to sell one unit of one SKU, by so many callers at a time: Deduct, which writes an
// order and no movement, customer or key; a step of the ledger with its movement alone; one with customer and key; and
// the same in batches. The ways take turns, so that what else the computer does befalls all of them, and the median of
// the rounds counts: in sales a second, and as a share of Deduct's.
//
//	go test ./repo/ledger -run '^$' -bench LedgerSteps -benchtime 1x
func BenchmarkLedgerSteps(b *testing.B) {
	const rounds, turn = 5, 400 * time.Millisecond
	for _, store := range []struct {
		name string
		open func(testing.TB) desk
	}{{"mysql", mysqlDesk}, {"redis", redisDesk}} {
		d := store.open(b)
		together := merged(d)
		sku, plain := newSKU("place"), newSKU("deduct")
		stocked(b, d, sku, service.MaxStock)
		mustSet(b, d.shop(), plain, service.MaxStock)
		order := func(d desk, about orders.About) error {
			about.SKUs = []service.SKU{sku}
			_, _, err := d.Step(context.Background(), about, place(newID(), about.Customer, line(sku, 1)))
			return err
		}
		ways := []struct {
			name string
			sell func() error
		}{
			{"deduct", func() error {
				_, err := d.shop().Deduct(context.Background(), numbered(service.Stock{SKU: plain}))
				return err
			}},
			{"step", func() error { return order(d, orders.About{}) }},
			{"step-key", func() error { return order(d, orders.About{Customer: newID(), Key: keyed("1")}) }},
			{"batched-key", func() error { return order(together, orders.About{Customer: newID(), Key: keyed("1")}) }},
		}
		for _, callers := range []int{1, 30, 128} {
			b.Run(fmt.Sprintf("%s/%d", store.name, callers), func(b *testing.B) {
				for b.Loop() {
					rates := make([][]float64, len(ways))
					for range rounds {
						for i, way := range ways {
							rates[i] = append(rates[i], rateOf(b, callers, turn, way.sell))
						}
					}
					for i, way := range ways {
						slices.Sort(rates[i])
						b.ReportMetric(rates[i][rounds/2], way.name+"/s")
						if i > 0 {
							b.ReportMetric(rates[i][rounds/2]/rates[0][rounds/2], way.name+"/deduct")
						}
					}
				}
			})
		}
	}
}

// rateOf returns how often a second callers do something.
func rateOf(b *testing.B, callers int, turn time.Duration, do func() error) float64 {
	b.Helper()
	var all sync.WaitGroup
	var n atomic.Int64
	began := time.Now()
	for range callers {
		all.Go(func() {
			for time.Since(began) < turn {
				if err := do(); err != nil {
					b.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	all.Wait()
	return float64(n.Load()) / time.Since(began).Seconds()
}
