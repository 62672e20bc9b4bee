package service

import "context"

// Stock returns the stock of sku in store. An empty store is the default one.
func (s *Service) Stock(ctx context.Context, store string, sku SKU) (Stock, error) {
	return inStore(ctx, s, store, func(ctx context.Context, config StoreConfig) (Stock, error) {
		return config.Store.Read(ctx, sku)
	})
}

// SetStockIf puts quantity units of sku in store and starts a new epoch: earlier orders no longer count as sold. If c
// does not hold, it sets nothing and fails with ErrPrecondition. Only a person should call it: if the store had lost
// its data, all of its SKUs are sold again afterwards.
//
// It takes one round trip after the store's Set. If this round trip fails, the stock is set and the error is
// lock.ErrDown. A repeated request sets the stock again, or, with a condition, fails with ErrPrecondition.
func (s *Service) SetStockIf(ctx context.Context, store string, sku SKU, quantity int64, c Condition) (Stock, error) {
	if quantity < 0 || quantity > MaxStock {
		return Stock{}, Invalid("quantity", "from-to", "least", 0, "most", MaxStock)
	}
	config, err := s.storeConfig(store)
	if err != nil {
		return Stock{}, err
	}
	if err := config.Needs.Err(); err != nil {
		return Stock{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	stock, err := config.Store.Set(ctx, sku, quantity, c)
	if err == nil {
		err = config.Data.Renew(ctx) // after the stock is set, so that readers of the new origin see it
	}
	if err != nil {
		return stock, busy(err, config.Needs)
	}
	s.known.put(stockKey{config.Store, sku}, struct{}{})
	return stock, nil
}

// A Page has some orders, and the cursor of the next page ("" after the last).
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

// Settle decides finally whether the order with this id exists. If it does not exist, it will never be written. A
// client calls Settle after ErrOutcomeUnknown, with the store, sku and id of the OrderError. store is required, because
// the sale may have used another store than the default.
//
// Errors: those of [Shop]'s Settle, and InvalidError.
func (s *Service) Settle(ctx context.Context, store string, sku SKU, id string) (Settlement, error) {
	if store == "" {
		return Settlement{}, Invalid("store", "missing-store")
	}
	return inStore(ctx, s, store, func(ctx context.Context, config StoreConfig) (Settlement, error) {
		order, written, err := config.Store.Settle(ctx, sku, id)
		return Settlement{written, order}, err
	})
}

// inStore calls do, for at most Work, if the store is up and has its data. After a loss of data, a missing order proves
// nothing.
func inStore[T any](
	ctx context.Context, s *Service, store string, do func(context.Context, StoreConfig) (T, error),
) (out T, err error) {
	config, err := s.storeConfig(store)
	if err != nil {
		return out, err
	}
	if err := config.Needs.Err(); err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	if err := config.Data.Look(ctx); err != nil {
		return out, err
	}
	out, err = do(ctx, config)
	return out, busy(err, config.Needs)
}
