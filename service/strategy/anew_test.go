package strategy_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// A removable store can lose the books of a SKU.
type removable struct {
	service.StoreConfig
	remove func(service.SKU) error
}

func removableStores(t *testing.T, on *strategy.Servers) map[string]removable {
	t.Helper()
	client, db := plain(t), orm(t, database(t))
	var err error
	if on.MySQL, err = db.DB(); err != nil {
		t.Fatal(err)
	}
	return map[string]removable{
		strategy.Redis: {
			service.StoreConfig{Store: stock.NewRedis(repo.NewRedis(client)), Needs: up{}, Data: service.Trusted{}},
			func(sku service.SKU) error { return client.Del(t.Context(), repo.StockKey(sku)).Err() },
		},
		strategy.MySQL: {
			service.StoreConfig{Store: stock.NewMySQL(repo.NewMySQL(db)), Needs: up{}, Data: service.Trusted{}},
			func(sku service.SKU) error {
				return db.WithContext(t.Context()).Exec("DELETE FROM stock WHERE sku = ?", string(sku)).Error
			},
		},
	}
}

// A hook is a service.Watcher that does something once, in the middle of a sale.
type hook struct {
	at service.StepKind
	do func()
}

func (h *hook) Tell(s service.Step) {
	if s.Kind == h.at && h.do != nil {
		do := h.do
		h.do = nil
		do()
	}
}

// The books of a SKU are deleted and set anew, with fewer units, between the read and the write of a sale. With every
// strategy and on every store the sale writes nothing, and is refused because of that. A strategy without a gap sells
// from the books that it finds.
func TestBooksAreSetAnewUnderASale(t *testing.T) {
	t.Parallel()
	on := sound(t)
	stores := removableStores(t, &on)
	for _, s := range strategy.All() {
		for name, store := range stores {
			if len(s.Stores) > 0 && s.Stores[0] != name {
				continue
			}
			t.Run(s.Name+"/"+name, func(t *testing.T) {
				t.Parallel()
				setAnewUnder(t, s, on, name, store)
			})
		}
	}
}

func setAnewUnder(t *testing.T, s strategy.Strategy, on strategy.Servers, name string, store removable) {
	seller, closer := s.Build(on, nil)
	defer closer()
	h := &hook{}
	shop, err := service.New(service.Config{
		Instance: "app-1", DefaultStore: name, Wait: time.Minute, Work: time.Minute,
		Strategies: map[string]service.StrategyConfig{s.Name: {Seller: seller, Blocking: true}},
		Stores:     map[string]service.StoreConfig{name: store.StoreConfig},
		Watch:      h,
	})
	if err != nil {
		t.Fatal(err)
	}
	sku := service.SKU("anew-" + s.Name)
	set := func(quantity int64) {
		if _, err := store.Store.Set(t.Context(), sku, quantity); err != nil {
			t.Error(err)
		}
	}
	anew := func(quantity int64) {
		if err := store.remove(sku); err != nil {
			t.Error(err)
		}
		set(quantity)
	}
	sell := func() error {
		_, err := shop.Deduct(t.Context(), service.Request{Strategy: s.Name, SKU: sku, Quantity: 1, RequestID: "r"})
		return err
	}
	balanced := func(initial, sold int64) {
		t.Helper()
		stock, err := store.Store.Read(t.Context(), sku)
		if err != nil || stock.Initial != initial || stock.Quantity != initial-sold || stock.Sold != sold {
			t.Errorf("%+v, %v; want %d of %d sold", stock, err, sold, initial)
		}
		if page, err := shop.Orders(t.Context(), name, sku, "", 10); err != nil || int64(len(page.Orders)) != sold {
			t.Errorf("orders %+v, %v; want %d", page.Orders, err, sold)
		}
	}

	set(100)
	sold, want := int64(0), service.ErrStockReset
	h.at, h.do = service.Thinks, func() { anew(5) }
	var deleting sync.WaitGroup
	switch s.Name {
	case "atomic", "merged": // they read and write in one step
		h.at, sold, want = service.Writes, 1, nil
	case "pessimistic": // its row is locked, so whoever deletes it waits for the end of the sale
		h.do, want = func() { deleting.Go(func() { anew(5) }) }, nil
	}
	err = sell()
	deleting.Wait()
	if h.do != nil {
		t.Fatal("the books were not set anew: this proves nothing")
	}
	if !errors.Is(err, want) {
		t.Errorf("the sale: %v, want %v", err, want)
	}
	balanced(5, sold)

	// That a SKU was sold out is no property of its next books.
	anew(1)
	for _, want := range []error{nil, service.ErrSoldOut, service.ErrSoldOut} {
		if err := sell(); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	anew(2)
	if err := sell(); err != nil {
		t.Errorf("from new books: %v", err)
	}
	balanced(2, 1)
}
