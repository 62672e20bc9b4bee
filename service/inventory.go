package service

import (
	"cmp"
	"context"
)

// Stock returns the stock of sku in store (empty: the default).
func (s *Service) Stock(ctx context.Context, store string, sku SKU) (Stock, error) {
	return inStore(ctx, s, store, func(ctx context.Context, config StoreConfig) (Stock, error) {
		return config.Store.Read(ctx, sku)
	})
}

// SetStock is SetStockIf without a condition.
func (s *Service) SetStock(ctx context.Context, store string, sku SKU, quantity int64) (Stock, error) {
	return s.SetStockIf(ctx, store, sku, quantity, Condition{})
}

// SetStockIf puts quantity units of sku in store and starts a new epoch: earlier orders no longer count as sold. If c
// does not hold, it sets nothing and fails with ErrPrecondition. It is for a person: after it a store that has lost its
// data is sold from again, with everything else that is in it.
//
// It takes one round trip more than the store's SetIf. If the store does not answer that one, the stock is set and the
// error is lock.ErrDown. A caller that then repeats the request sets the stock again; with a condition it gets
// ErrPrecondition.
func (s *Service) SetStockIf(ctx context.Context, store string, sku SKU, quantity int64, c Condition) (Stock, error) {
	if quantity < 0 || quantity > MaxStock {
		return Stock{}, Invalid("quantity", "from-to", "least", 0, "most", MaxStock)
	}
	config, err := s.storeConfig(StrategyConfig{}, &Request{Store: store})
	if err != nil {
		return Stock{}, err
	}
	stock, err := Call(ctx, s.Work, config.Needs, nil, func(ctx context.Context) (Stock, error) {
		stock, err := config.Store.SetIf(ctx, sku, quantity, c)
		if err == nil && config.Data != nil {
			err = config.Data.Renew(ctx) // after the stock is set: whoever reads the new origin sees the stock
		}
		return stock, err
	})
	if err == nil {
		s.known[cmp.Or(store, s.DefaultStore)].add(sku)
	}
	return stock, err
}

// A Page is some orders, and the cursor of the next page ("" after the last).
type Page struct {
	Orders []Order
	Next   string
}

// Orders returns a page of the orders of the current epoch, in the order in which they were written.
func (s *Service) Orders(ctx context.Context, store string, sku SKU, cursor string, limit int) (Page, error) {
	if limit < 1 || limit > MaxPage {
		return Page{}, Invalid("limit", "from-to", "least", 1, "most", MaxPage)
	}
	return inStore(ctx, s, store, func(ctx context.Context, config StoreConfig) (Page, error) {
		orders, next, err := config.Store.Orders(ctx, sku, cursor, limit)
		return Page{orders, next}, err
	})
}

// A Settlement says whether an order exists. It is final.
type Settlement struct {
	Written bool
	Order   Order // if Written
}

// Settle decides whether the order with that id exists. A client calls it after ErrOutcomeUnknown, with the sku, store
// and id of the OrderError. If the order does not exist, it is never written. store must be named, because the sale
// need not have been tried in the default store.
//
// Errors: as [Settler], and InvalidError.
func (s *Service) Settle(ctx context.Context, store string, sku SKU, id string) (Settlement, error) {
	if store == "" {
		return Settlement{}, Invalid("store", "missing-store")
	}
	return inStore(ctx, s, store, func(ctx context.Context, config StoreConfig) (Settlement, error) {
		settler, ok := config.Store.(Settler)
		if !ok {
			return Settlement{}, Invalid("store", "cannot-settle")
		}
		order, written, err := settler.Settle(ctx, sku, id)
		return Settlement{written, order}, err
	})
}

// inStore calls do for a store that is up and has its data. In a store that has lost its data, a missing order says
// nothing.
func inStore[T any](
	ctx context.Context, s *Service, store string, do func(context.Context, StoreConfig) (T, error),
) (T, error) {
	config, err := s.storeConfig(StrategyConfig{}, &Request{Store: store})
	if err != nil {
		var none T
		return none, err
	}
	return Call(ctx, s.Work, config.Needs, config.data(), func(ctx context.Context) (T, error) {
		return do(ctx, config)
	})
}
