package service

import (
	"context"
	"fmt"
)

// MaxPage is the most orders that one call returns.
const MaxPage = 1000

// Stock is what store (empty: the default) knows of sku.
func (s *Service) Stock(ctx context.Context, store string, sku SKU) (Stock, error) {
	return inStore(ctx, s, store, func(ctx context.Context, shelf Shelf) (Stock, error) { return shelf.Store.Read(ctx, sku) })
}

// SetStock puts quantity units of sku in store and starts a new epoch: earlier orders no longer count as sold.
func (s *Service) SetStock(ctx context.Context, store string, sku SKU, quantity int64) (Stock, error) {
	if quantity < 0 || quantity > MaxStock {
		return Stock{}, &InvalidError{"quantity", fmt.Sprintf("must be from 0 to %d", MaxStock)}
	}
	return inStore(ctx, s, store, func(ctx context.Context, shelf Shelf) (Stock, error) {
		return shelf.Store.Set(ctx, sku, quantity)
	})
}

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
	return inStore(ctx, s, store, func(ctx context.Context, shelf Shelf) (Page, error) {
		orders, next, err := shelf.Store.Orders(ctx, sku, cursor, limit)
		return Page{orders, next}, err
	})
}

// inStore does one bounded thing in a store that is up.
func inStore[T any](ctx context.Context, s *Service, store string, do func(context.Context, Shelf) (T, error)) (T, error) {
	var none T
	shelf, err := s.shelf(Offer{}, &Request{Store: store})
	if err != nil {
		return none, err
	}
	if err := shelf.Needs.Err(); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	out, err := do(ctx, shelf)
	return out, slow(err, shelf.Needs)
}
