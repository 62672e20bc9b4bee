package stock_test

import (
	"context"
	"testing"

	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// Every operation takes the round trips that it says, once its script is known.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	for store, n := range map[string]map[string]int{
		"redis": {
			"Set": 2, "Read": 1, "Write": 1, "Swap": 1, "Deduct": 1, "Batch": 1, "Orders": 1, "Raise": 1, "Segments": 1,
			"Refill": 1, "Refill from two": 1, "Swap of a segment": 1, "Raise of a segment": 1, "Set of segments": 2,
		},
		"mysql": {
			"Set": 6, "Read": 1, "Write": 2, "Swap": 2, "Deduct": 2, "Batch": 2, "Orders": 2, "Raise": 3, "Segments": 1,
			"Refill": 4, "Refill from two": 6, "Swap of a segment": 2, "Raise of a segment": 5, "Set of segments": 9,
		},
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p, s, sound := proxied(t, store)
			sku := newSKU("trips")
			fence := uint64(0)
			raise := func(segment int) error {
				fence++
				return s.Raise(short(t), sku, segment, "none", fence)
			}
			for _, warm := range []bool{false, true} {
				mustSet(t, sound, sku, 100)
				takes := func(name string, op func() error) { t.Helper(); trips(t, p, warm, name, n[name], op) }
				set := func() error { _, err := s.Set(short(t), sku, 100, service.Condition{}); return err }
				takes("Set", set)
				takes("Read", func() error { _, err := s.Read(short(t), sku); return err })
				takes("Orders", func() error { _, _, err := s.Orders(short(t), sku, "", 1); return err })
				for _, way := range []string{"Write", "Swap", "Deduct"} {
					takes(way, func() error { return ways(s)[way](short(t), order(mustRead(t, sound, sku))) })
				}
				takes("Batch", func() error { // however many there are
					orders := make([]service.Order, 40)
					for i := range orders {
						orders[i] = unread(sku, 1)
					}
					_, err := s.Batch(short(t), orders)
					return err
				})
				takes("Raise", func() error { return raise(0) })
				takes("Raise of a segment", func() error { return raise(4) })
				refill(t, sound, sku, 2, 1)
				refill(t, sound, sku, 3, 1)
				all := parts(t, sound, sku)
				takes("Segments", func() error { _, err := s.Segments(short(t), sku); return err })
				takes("Refill", func() error { return s.Refill(short(t), refillOf(all, 1, 10)) })
				all = parts(t, sound, sku)
				takes("Refill from two", func() error { return s.Refill(short(t), refillOf(all, 1, 10, 2, 3)) })
				all = parts(t, sound, sku)
				takes("Swap of a segment", func() error {
					o := fromSegment(all, 1)
					o.Fence = fence
					return s.Swap(short(t), o)
				})
				takes("Set of segments", set)
			}
			if m, is := s.(*stock.MySQL); is {
				trips(t, p, true, "Transact", 5, func() error {
					return m.Transact(context.WithoutCancel(t.Context()), sku, false, sellIn(sku, "x", nil))
				})
				trips(t, p, true, "Seed", 3, func() error { return m.Seed(short(t), sku, 10) })
			}
		})
	}
}

// trips checks that op takes n round trips, unless warm is false. Clients here wait for each reply before they send the
// next request.
func trips(t *testing.T, p proxy, warm bool, what string, n int, op func() error) {
	t.Helper()
	before := p.Requests()
	err := op()
	got := p.Requests() - before
	if err != nil || warm && got != n {
		t.Errorf("%s: %d round trips, want %d; %v", what, got, n, err)
	}
}
