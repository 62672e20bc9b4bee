package service

import (
	"cmp"
	"context"
	"fmt"
)

// Stock returns what store (empty: the default) knows of sku.
func (s *Service) Stock(ctx context.Context, store string, sku SKU) (Stock, error) {
	return inStore(ctx, s, store, dataThere, func(ctx context.Context, config StoreConfig) (Stock, error) {
		return config.Store.Read(ctx, sku)
	})
}

// SetStock is SetStockIf without a condition.
func (s *Service) SetStock(ctx context.Context, store string, sku SKU, quantity int64) (Stock, error) {
	return s.SetStockIf(ctx, store, sku, quantity, Condition{})
}

// SetStockIf puts quantity units of sku in store and starts a new epoch: earlier orders no longer count as sold. It
// fails with ErrPrecondition, and sets nothing, if c does not hold. It is for a person: a store that has lost its
// data is sold from again after it, with whatever else is in it.
//
// It is one round trip more than the store's own. If the store does not answer that one, the stock is set and the
// error is lock.ErrDown: a caller that asks again without a condition sets it once more; with one it is told
// ErrPrecondition.
func (s *Service) SetStockIf(ctx context.Context, store string, sku SKU, quantity int64, c Condition) (Stock, error) {
	if quantity < 0 || quantity > MaxStock {
		return Stock{}, &InvalidError{"quantity", fmt.Sprintf("must be from 0 to %d", MaxStock)}
	}
	stock, err := inStore(ctx, s, store, serverUp, func(ctx context.Context, config StoreConfig) (Stock, error) {
		stock, err := config.Store.SetIf(ctx, sku, quantity, c)
		if err == nil && config.Data != nil {
			// After the stock is there: a reader of the new origin sees the stock.
			err = config.Data.Renew(ctx)
		}
		return stock, err
	})
	if err == nil {
		s.known[cmp.Or(store, s.DefaultStore)].add(sku)
	}
	return stock, err
}

// serverUp returns an error if the stock cannot be set: its server is down.
func serverUp(_ context.Context, s StoreConfig) error { return s.Needs.Err() }

// A Page is some orders, and the cursor of the next page ("" after the last).
type Page struct {
	Orders []Order
	Next   string
}

// Orders returns a page of the orders of the current epoch, in the order in which they were written.
func (s *Service) Orders(ctx context.Context, store string, sku SKU, cursor string, limit int) (Page, error) {
	if limit < 1 || limit > MaxPage {
		return Page{}, &InvalidError{"limit", fmt.Sprintf("must be from 1 to %d", MaxPage)}
	}
	return inStore(ctx, s, store, dataThere, func(ctx context.Context, config StoreConfig) (Page, error) {
		orders, next, err := config.Store.Orders(ctx, sku, cursor, limit)
		return Page{orders, next}, err
	})
}

// A Settlement says whether an order exists. It does not change any more.
type Settlement struct {
	Written bool
	Order   Order // if Written
}

// Settle decides whether the order with that id exists. It is for a client that was told ErrOutcomeUnknown, with
// the sku, store and id of that error. An order that does not is never written. store must be named: the default
// need not be where the sale was tried.
//
// Errors: as [Settler], and InvalidError.
func (s *Service) Settle(ctx context.Context, store string, sku SKU, id string) (Settlement, error) {
	if store == "" {
		return Settlement{}, &InvalidError{"store", "is missing: name the one that the order was tried in"}
	}
	return inStore(ctx, s, store, dataThere, func(ctx context.Context, config StoreConfig) (Settlement, error) {
		settler, ok := config.Store.(Settler)
		if !ok {
			return Settlement{}, &InvalidError{"store", "cannot settle orders"}
		}
		order, written, err := settler.Settle(ctx, sku, id)
		return Settlement{written, order}, err
	})
}

// dataThere returns an error if what the store says cannot be believed: that an order is absent means nothing in a
// store without its data.
func dataThere(ctx context.Context, s StoreConfig) error { return s.open(ctx) }

// inStore does one bounded thing in a store that can be used for it.
func inStore[T any](
	ctx context.Context, s *Service, store string,
	can func(context.Context, StoreConfig) error, do func(context.Context, StoreConfig) (T, error),
) (T, error) {
	var none T
	config, err := s.storeConfig(StrategyConfig{}, &Request{Store: store})
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	if err := can(ctx, config); err != nil {
		return none, err
	}
	out, err := do(ctx, config)
	return out, slow(err, config.Needs)
}
