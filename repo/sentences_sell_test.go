package repo_test

import (
	"errors"
	"math"
	"sync"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/service"
)

func writeRecords(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	o := order(stock)
	o.Quantity, o.Remaining, o.Fence = 3, 97, 1_800_000_000_000_000
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	want(t, s, service.Stock{
		SKU: sku, Quantity: 97, Initial: 100, Sold: 3, Version: 2, Epoch: 1, Fence: 1_800_000_000_000_000, Guard: "none",
	})
	if got := allOrders(t, s, sku); len(got) != 1 || got[0] != o {
		t.Errorf("orders %+v\nwant   %+v", got, o)
	}
}

func writeIsBlind(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	for range 2 {
		if err := s.Write(short(t), order(stock)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, service.Stock{SKU: sku, Quantity: 99, Initial: 100, Sold: 2, Version: 3, Epoch: 1, Guard: "none"})
	if o := allOrders(t, s, sku); len(o) != 2 || o[0].Version != o[1].Version {
		t.Errorf("the two orders should have seen the same version: %+v", o)
	}
}

func fence(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	for _, step := range []struct {
		fence, seen uint64
		err         error
	}{{10, 10, nil}, {9, 10, service.ErrStaleFence}, {10, 10, nil}, {0, 10, nil}, {100, 100, nil}, {99, 100, service.ErrStaleFence}} {
		stock := mustRead(t, s, sku)
		o := order(stock)
		o.Fence = step.fence
		if step.err != nil {
			refused(t, s, sku, step.err, func() error { return s.Write(short(t), o) })
			continue
		}
		if err := s.Write(short(t), o); err != nil {
			t.Errorf("fence %d: %v", step.fence, err)
		}
		if got := mustRead(t, s, sku); got.Fence != step.seen || got.Quantity != stock.Quantity-1 {
			t.Errorf("after fence %d: %+v", step.fence, got)
		}
	}
}

func longFence(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	for _, next := range []uint64{1_800_000_000_000_000, 1<<53 + 1, 1<<53 + 2, math.MaxUint64} {
		o := order(mustRead(t, s, sku))
		o.Fence = next
		if err := s.Write(short(t), o); err != nil {
			t.Fatal(err)
		}
		o = order(mustRead(t, s, sku))
		if o.Fence = next - 1; mustRead(t, s, sku).Fence != next {
			t.Fatalf("fence %d is kept as %d", next, mustRead(t, s, sku).Fence)
		}
		refused(t, s, sku, service.ErrStaleFence, func() error { return s.Write(short(t), o) })
	}
}

func guard(t *testing.T, s shop, sku service.SKU) {
	if err := s.Write(short(t), order(mustSet(t, s, sku, 100))); err != nil {
		t.Fatal(err)
	}
	o := order(mustRead(t, s, sku))
	o.Strategy = "redis-setnx"
	var guarded *service.GuardError
	refused(t, s, sku, service.ErrGuarded, func() error {
		err := s.Write(short(t), o)
		if !errors.As(err, &guarded) || guarded.Guard != "none" {
			t.Errorf("the error %v should name the guard", err)
		}
		return err
	})
	o.Epoch = mustSet(t, s, sku, 100).Epoch
	if err := s.Write(short(t), o); err != nil {
		t.Errorf("after the stock was set: %v", err)
	}
}

func reset(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 100))
	mustSet(t, s, sku, 100)
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), o) })
	o.Epoch = 0 // an order that never read
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), o) })
}

func deduct(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	o := order(service.Stock{SKU: sku})
	o.Quantity, o.Fence = 3, 5
	got, err := s.Deduct(short(t), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Read, o.Remaining, o.Version, o.Epoch = 100, 97, stock.Version, stock.Epoch
	if got != o {
		t.Errorf("Deduct returned %+v\nwant %+v", got, o)
	}
	if all := allOrders(t, s, sku); len(all) != 1 || all[0] != o {
		t.Errorf("orders %+v\nwant   %+v", all, o)
	}
	want(t, s, service.Stock{SKU: sku, Quantity: 97, Initial: 100, Sold: 3, Version: 2, Epoch: 1, Fence: 5, Guard: "none"})
}

func soldOut(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 2))
	o.Quantity = 3
	var out *service.SoldOutError
	refused(t, s, sku, service.ErrSoldOut, func() error {
		_, err := s.Deduct(short(t), o)
		if !errors.As(err, &out) || out.Remaining != 2 {
			t.Errorf("the error %v should say that 2 are left", err)
		}
		return err
	})
	o.Quantity = 2
	if got, err := s.Deduct(short(t), o); err != nil || got.Remaining != 0 {
		t.Errorf("the last two: %+v, %v", got, err)
	}
	o.Quantity = 1
	refused(t, s, sku, service.ErrSoldOut, func() error { _, err := s.Deduct(short(t), o); return err })
}

func deductRefused(t *testing.T, s shop, sku service.SKU) {
	first := order(mustSet(t, s, sku, 100))
	first.Fence = 10
	if _, err := s.Deduct(short(t), first); err != nil {
		t.Fatal(err)
	}
	for target, change := range map[error]func(*service.Order){
		service.ErrStockReset: func(o *service.Order) { o.Epoch = 7 },
		service.ErrGuarded:    func(o *service.Order) { o.Strategy = "atomic" },
		service.ErrStaleFence: func(o *service.Order) { o.Fence = 9 },
	} {
		o := order(mustRead(t, s, sku))
		change(&o)
		refused(t, s, sku, target, func() error { _, err := s.Deduct(short(t), o); return err })
	}
}

func precedence(t *testing.T, s shop, sku service.SKU) {
	first := order(mustSet(t, s, sku, 1))
	first.Fence = 10
	if _, err := s.Deduct(short(t), first); err != nil {
		t.Fatal(err)
	}
	// All is wrong at first, and then one thing after the other is put right.
	o := order(service.Stock{SKU: sku, Quantity: 5})
	o.Epoch, o.Strategy, o.Fence = 7, "atomic", 9
	for _, step := range []struct {
		target error
		right  func()
	}{
		{service.ErrStockReset, func() { o.Epoch = 1 }},
		{service.ErrGuarded, func() { o.Strategy = "none" }},
		{service.ErrStaleFence, func() { o.Fence = 10 }},
		{service.ErrSoldOut, func() {}},
	} {
		refused(t, s, sku, step.target, func() error { _, err := s.Deduct(short(t), o); return err })
		if step.target != service.ErrSoldOut {
			refused(t, s, sku, step.target, func() error { return s.Write(short(t), o) })
		}
		step.right()
	}
}

func deductMany(t *testing.T, s shop, sku service.SKU) {
	const initial = 20
	mustSet(t, s, sku, initial)
	var all sync.WaitGroup
	errs := make([]error, 30)
	for i := range errs {
		all.Go(func() {
			o := order(service.Stock{SKU: sku})
			o.ID = uuid.NewString()
			_, errs[i] = s.Deduct(short(t), o)
		})
	}
	all.Wait()
	sold := 0
	for _, err := range errs {
		switch {
		case err == nil:
			sold++
		case !errors.Is(err, service.ErrSoldOut):
			t.Error(err)
		}
	}
	versions := map[uint64]bool{}
	for _, o := range allOrders(t, s, sku) {
		versions[o.Version] = true
	}
	stock := mustRead(t, s, sku)
	if sold != initial || stock.Quantity != 0 || stock.Sold != initial || len(versions) != initial {
		t.Errorf("%d accepted, %d versions, %+v; want %d of each and none left", sold, len(versions), stock, initial)
	}
}

func audit(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 1000)
	var all sync.WaitGroup
	for i := range int64(8) {
		all.Go(func() {
			for range 5 {
				o := order(mustRead(t, s, sku))
				o.ID, o.Quantity = uuid.NewString(), i+1
				if err := s.Write(short(t), o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	var sum int64
	for _, o := range allOrders(t, s, sku) {
		sum += o.Quantity
	}
	if got := mustRead(t, s, sku).Sold; got != sum || sum != 5*(1+2+3+4+5+6+7+8) {
		t.Errorf("sold %d, the orders sum up to %d", got, sum)
	}
}
