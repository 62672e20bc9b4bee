package stock_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"example.com/stock/service"
)

func swap(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	o := order(stock)
	o.Fence = 10
	if err := s.Swap(short(t), o); err != nil {
		t.Fatal(err)
	}
	want(t, s, service.Stock{
		SKU: sku, Quantity: 99, Initial: 100, Sold: 1, Version: 2, Epoch: stock.Epoch, Fence: 10, Guard: "none",
	})
	o.ID = "second"
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), o) })
	o.Version = 1<<53 + 1
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), o) })
	// The version is the last thing that is looked at.
	o.Fence = 9
	refused(t, s, sku, service.ErrStaleFence, func() error { return s.Swap(short(t), o) })
	o.Strategy = "other"
	refused(t, s, sku, service.ErrGuarded, func() error { return s.Swap(short(t), o) })
	o.Epoch = 7
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Swap(short(t), o) })
	o.SKU = "nothing"
	if err := s.Swap(short(t), o); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("error %v", err)
	}
	balanced(t, s, sku, 1)
}

func segments(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	all := parts(t, s, sku)
	if all.Stock != stock || all.Reserve != 100 || len(all.Rows) != 0 || all.Row(3) != (service.Segment{Number: 3}) {
		t.Errorf("a stock that was never split is %+v", all)
	}
	refill(t, s, sku, 2, 20)
	refill(t, s, sku, 10, 5)
	refill(t, s, sku, 2, 1)
	refill(t, s, sku, 1, 4, 2, 10)
	refill(t, s, sku, 7, 0, 1)
	rows := []service.Segment{
		{Number: 1, Version: 2},
		{Number: 2, Version: 3},
		{Number: 7, Quantity: 30, Version: 1},
		{Number: 10, Version: 2},
	}
	all = parts(t, s, sku)
	if all.Reserve != 70 || !slices.Equal(all.Rows, rows) || all.Guard != "none" || all.Sold != 0 {
		t.Errorf("segments %+v\nwant %+v", all, rows)
	}
	if _, err := s.Segments(short(t), "nothing"); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("segments of nothing: %v", err)
	}
}

func segmentSale(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 20)
	refill(t, s, sku, 2, 20)
	all := parts(t, s, sku)
	first, second := fromSegment(all, 1), fromSegment(all, 2)
	first.Fence, second.Fence = 1<<53+1, 7
	for _, o := range []service.Order{first, second} { // the fence of the one is nothing to the other
		if err := s.Swap(short(t), o); err != nil {
			t.Fatalf("segment %d: %v", o.Segment, err)
		}
	}
	rows := []service.Segment{
		{Number: 1, Quantity: 19, Version: 2, Fence: 1<<53 + 1},
		{Number: 2, Quantity: 19, Version: 2, Fence: 7},
	}
	after := parts(t, s, sku)
	if !slices.Equal(after.Rows, rows) || after.Reserve != 60 || after.Sold != 2 || after.Version != all.Version+2 ||
		after.Fence != 1<<53+1 {
		t.Errorf("after two sales %+v", after)
	}
	if got := allOrders(t, s, sku); !slices.Equal(got, []service.Order{first, second}) {
		t.Errorf("orders %+v\nwant %+v", got, []service.Order{first, second})
	}
	o := fromSegment(after, 2)
	o.Fence = 6
	refused(t, s, sku, service.ErrStaleFence, func() error { return s.Swap(short(t), o) })
	o.Fence, o.Version = 7, 1
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), o) })
	o = fromSegment(after, 3)
	o.Remaining = 0
	refused(t, s, sku, service.ErrConflict, func() error { return s.Swap(short(t), o) })
	refused(t, s, sku, service.ErrConflict, func() error { return s.Write(short(t), o) })
	o = fromSegment(after, 1)
	o.Strategy = "other"
	refused(t, s, sku, service.ErrGuarded, func() error { return s.Swap(short(t), o) })
	o = order(after.Stock)
	o.Strategy = "other"
	refused(t, s, sku, service.ErrGuarded, func() error { return s.Write(short(t), o) })
	balanced(t, s, sku, 2)
}

func segmentBlind(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 20)
	o := fromSegment(parts(t, s, sku), 1)
	for _, id := range []string{"blind-1", "blind-2"} {
		o.ID = id
		if err := s.Write(short(t), o); err != nil {
			t.Fatal(err)
		}
	}
	if got := mustRead(t, s, sku); got.Quantity != 99 || got.Sold != 2 {
		t.Errorf("after two blind writes of one read %+v, want 99 left and 2 sold", got)
	}
}

func refillRefused(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 20)
	refill(t, s, sku, 2, 20)
	old := parts(t, s, sku)
	if err := s.Swap(short(t), fromSegment(old, 2)); err != nil {
		t.Fatal(err)
	}
	now := parts(t, s, sku)
	stranger, early := refillOf(now, 1, 1), refillOf(now, 1, 1)
	stranger.Strategy, early.Epoch = "other", 0
	for name, row := range map[string]struct {
		g   service.Refill
		err error
	}{
		"from one that was sold from": {refillOf(old, 1, 5, 2), service.ErrConflict},
		"into one that was sold from": {refillOf(old, 2, 5), service.ErrConflict},
		"into one that is there":      {refillOf(service.Segments{Stock: now.Stock}, 1, 5), service.ErrConflict},
		"more than the reserve":       {refillOf(now, 1, 61), service.ErrConflict},
		"guarded by another":          {stranger, service.ErrGuarded},
		"another epoch":               {early, service.ErrStockReset},
	} {
		refused(t, s, sku, row.err, func() error {
			err := s.Refill(short(t), row.g)
			if !errors.Is(err, row.err) {
				t.Errorf("%s: %v", name, err)
			}
			return err
		})
	}
	if after := parts(t, s, sku); !slices.Equal(after.Rows, now.Rows) {
		t.Errorf("refusals changed %+v to %+v", now.Rows, after.Rows)
	}
	nothing := service.Refill{SKU: "nothing", Epoch: 1, Into: service.Segment{Number: 1}}
	if err := s.Refill(short(t), nothing); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("a refill for nothing: %v", err)
	}
}

// 30 without any lock: the versions alone keep the units together.
func refillMany(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 1000)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			for j := range 10 {
				view, err := s.Segments(short(t), sku)
				if err != nil {
					t.Error(err)
					return
				}
				at, from := 1+(i+j)%5, 1+(i*j)%5
				switch row := view.Row(at); {
				case row.Quantity > 0 && j%2 == 0:
					o := fromSegment(view, at)
					o.ID = fmt.Sprint("many-", i, "-", j)
					err = s.Swap(short(t), o)
				case from != at && view.Row(from).Version > 0:
					err = s.Refill(short(t), refillOf(view, at, 3, from))
				default:
					err = s.Refill(short(t), refillOf(view, at, 3))
				}
				if err != nil && !errors.Is(err, service.ErrConflict) {
					t.Error(err)
				}
				if view, err = s.Segments(short(t), sku); err != nil || view.Quantity+view.Sold != view.Initial {
					t.Errorf("at some moment the parts are %+v, %v", view, err)
				}
			}
		})
	}
	all.Wait()
	after := parts(t, s, sku)
	if after.Sold == 0 {
		t.Error("nothing was sold: this proves nothing")
	}
	balanced(t, s, sku, int(after.Sold))
}

func segmentsReset(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 20)
	refill(t, s, sku, 2, 20)
	if err := s.Swap(short(t), fromSegment(parts(t, s, sku), 1)); err != nil {
		t.Fatal(err)
	}
	old := parts(t, s, sku)
	stock := mustSet(t, s, sku, 50)
	want := service.Stock{SKU: sku, Quantity: 50, Initial: 50, Version: old.Version + 1, Epoch: stock.Epoch}
	if stock != want || stock.Epoch <= old.Epoch {
		t.Errorf("Set returned %+v, want %+v", stock, want)
	}
	if all := parts(t, s, sku); all.Stock != stock || all.Reserve != 50 || len(all.Rows) != 0 {
		t.Errorf("after setting it is %+v", all)
	}
	sale := fromSegment(old, 1)
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Swap(short(t), sale) })
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), sale) })
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Refill(short(t), refillOf(old, 1, 1, 2)) })
	// Also when the segment is there again, with the same version.
	refill(t, s, sku, 1, 20)
	refill(t, s, sku, 1, 1)
	if row := parts(t, s, sku).Row(1); row.Version != old.Row(1).Version {
		t.Fatalf("version %d, want %d again: this proves nothing", row.Version, old.Row(1).Version)
	}
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Swap(short(t), sale) })
	mustSet(t, s, sku, 50)
	o := order(mustRead(t, s, sku))
	o.Strategy = "other"
	if err := s.Write(short(t), o); err != nil {
		t.Errorf("another strategy after setting: %v", err)
	}
	balanced(t, s, sku, 1)
}

// parts reads the segments, and checks that the whole is their sum and what Read says.
func parts(t *testing.T, s shop, sku service.SKU) service.Segments {
	t.Helper()
	all, err := s.Segments(short(t), sku)
	if err != nil {
		t.Fatal(err)
	}
	sum := all.Reserve
	for _, row := range all.Rows {
		sum += row.Quantity
	}
	if sum != all.Quantity || all.Quantity+all.Sold != all.Initial {
		t.Errorf("the parts are %d: %+v", sum, all)
	}
	want(t, s, all.Stock)
	return all
}

// refill moves units to segment into: some from the reserve, all from others.
func refill(t *testing.T, s shop, sku service.SKU, into int, reserve int64, from ...int) {
	t.Helper()
	all := parts(t, s, sku)
	if err := s.Refill(short(t), refillOf(all, into, reserve, from...)); err != nil {
		t.Fatalf("refill %d: %v", into, err)
	}
	after := parts(t, s, sku)
	if after.Quantity != all.Quantity || after.Version <= all.Version {
		t.Errorf("moving units made %+v\nof %+v", after, all)
	}
}

func refillOf(all service.Segments, into int, reserve int64, from ...int) service.Refill {
	g := service.Refill{SKU: all.SKU, Epoch: all.Epoch, Strategy: "none", Into: all.Row(into), Reserve: reserve}
	for _, n := range from {
		g.From = append(g.From, all.Row(n))
	}
	return g
}

// fromSegment is an order of one unit by a sale that saw a segment.
func fromSegment(all service.Segments, n int) service.Order {
	row := all.Row(n)
	o := order(service.Stock{SKU: all.SKU, Quantity: row.Quantity, Version: row.Version, Epoch: all.Epoch})
	o.Segment = n
	return o
}
