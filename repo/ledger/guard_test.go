package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// guardClauses are what the ledgers promise besides, where strategies sell from the same store.
var guardClauses = []ledgerClause{
	{"ledger-adopt", "The first step that moves a SKU records what was there as movement 1.", ledgerAdopt},
	{"ledger-guard", "What a ledger has changed no strategy may sell, and nobody set.", ledgerGuard},
	{"ledger-seen", "Strategies see the guard, the sales and the largest fence of a ledger.", ledgerSeen},
	{"ledger-guarded", "What a strategy has sold no ledger may touch.", ledgerGuarded},
}

func ledgerAdopt(t *testing.T, d desk, sku service.SKU) {
	mustSet(t, d.shop(), sku, 5)
	epoch := mustSet(t, d.shop(), sku, 9).Epoch
	about := orders.About{SKUs: []service.SKU{sku}}
	if l, err := d.Level(short(t), sku); err != nil || l != (orders.Level{Received: 9, Available: 9}) {
		t.Errorf("before: %+v, %v", l, err)
	}
	refuses(t, d, about, orders.ErrShort, place(newID(), "", line(sku, 10)))
	want(t, d.shop(), service.Stock{SKU: sku, Quantity: 9, Initial: 9, Version: 2, Epoch: epoch})
	if err := d.SetPolicy(short(t), sku, 4); err != nil {
		t.Error(err)
	}
	step(t, d, about, func(s orders.State) (orders.Changes, error) {
		if s.Stock[sku] != (orders.Level{Received: 9, Available: 9, Number: 1, PerCustomer: 4}) {
			t.Errorf("decide sees %+v", s.Stock[sku])
		}
		return place(newID(), "ann", line(sku, 2))(s)
	})
	level(t, d, sku, 7, 0, 2)
	moved := journal(t, d, sku)
	if len(moved) != 2 || moved[0] != (orders.Movement{
		SKU: sku, Number: 1, Kind: orders.Receive, Received: 9, Available: 9, At: moved[1].At,
	}) {
		t.Errorf("movements %+v", moved)
	}
	empty := sku + "-empty"
	mustSet(t, d.shop(), empty, 0)
	stocked(t, d, empty, 3)
	if l := level(t, d, empty, 3, 0, 0); l.Number != 1 {
		t.Errorf("nothing was there, and yet it was recorded: %+v", l)
	}
}

func ledgerGuard(t *testing.T, d desk, sku service.SKU) {
	mustSet(t, d.shop(), sku, 10)
	held(t, d, "ann", time.Minute, line(sku, 4))
	stock := mustRead(t, d.shop(), sku)
	if stock.Guard != orders.Guard || stock.Quantity != 6 {
		t.Errorf("the strategies see %+v", stock)
	}
	tag := stock.Tag()
	o := numbered(stock)
	for name, write := range map[string]func() error{
		"Write":   func() error { return d.shop().Write(short(t), o) },
		"Swap":    func() error { return d.shop().Swap(short(t), o) },
		"Deduct":  func() error { _, err := d.shop().Deduct(short(t), o); return err },
		"Set":     func() error { _, err := d.shop().Set(short(t), sku, 1); return err },
		"SetSame": func() error { _, err := d.shop().Set(short(t), sku, 6); return err },
		"SetIf": func() error {
			_, err := d.shop().SetIf(short(t), sku, 1, service.Condition{Match: []string{tag}})
			return err
		},
		"Batch": func() error {
			done, err := d.shop().Batch(short(t), 0, []service.Order{o})
			return errors.Join(err, done[0].Err)
		},
		"Refill": func() error {
			return d.shop().Refill(short(t), service.Refill{
				SKU: sku, Epoch: stock.Epoch, Strategy: "none", Into: service.Segment{Number: 1}, Reserve: 1,
			})
		},
		"Raise": func() error {
			raiser := d.shop().(interface {
				Raise(context.Context, service.SKU, int, string, uint64) error
			})
			return raiser.Raise(short(t), sku, 0, "none", 9)
		},
	} {
		var guarded *service.GuardError
		if err := write(); !errors.As(err, &guarded) || guarded.Guard != orders.Guard {
			t.Errorf("%s: %v, want a GuardError with %q", name, err, orders.Guard)
		}
		if got := mustRead(t, d.shop(), sku); got != stock {
			t.Errorf("%s changed %+v to %+v", name, stock, got)
		}
	}
	if err := d.shop().(recorder).Seed(short(t), recorded(t, d.shop()), sku, 99); err != nil {
		t.Error(err)
	}
	level(t, d, sku, 6, 4, 0)
}

func ledgerSeen(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 10)
	for _, fence := range []uint64{1<<63 + 1, 0} {
		about := orders.About{SKUs: []service.SKU{sku}, Fences: map[service.SKU]uint64{sku: fence}}
		step(t, d, about, place(newID(), "ann", line(sku, 2)))
	}
	stock := mustRead(t, d.shop(), sku)
	if stock.Guard != orders.Guard || stock.Quantity != 6 || stock.Sold != 4 || stock.Fence != 1<<63+1 {
		t.Errorf("the strategies see %+v", stock)
	}
}

func ledgerGuarded(t *testing.T, d desk, sku service.SKU) {
	mustSet(t, d.shop(), sku, 10)
	if _, err := d.shop().Deduct(short(t), numbered(service.Stock{SKU: sku})); err != nil {
		t.Fatal(err)
	}
	stock := mustRead(t, d.shop(), sku)
	refuses(t, d, orders.About{SKUs: []service.SKU{sku}}, service.ErrGuarded, adjust(sku, 1))
	if _, err := d.Level(short(t), sku); !errors.Is(err, service.ErrGuarded) {
		t.Errorf("level: %v", err)
	}
	if err := d.SetPolicy(short(t), sku, 1); !errors.Is(err, service.ErrGuarded) {
		t.Errorf("policy: %v", err)
	}
	want(t, d.shop(), stock)
	mustSet(t, d.shop(), sku, 10) // ends the strategy's guard
	ordered(t, d, "ann", line(sku, 1))
	level(t, d, sku, 9, 0, 1)
}
