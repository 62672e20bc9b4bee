package app

import (
	"errors"

	"example.com/stock/handler"
	"example.com/stock/handler/orders"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// buildOrders builds the order service on the default store. wrap decorates the ledger. If orders need a lock,
// buildOrders uses the lock of the strategy in configs. If configs lacks this strategy, buildOrders adds it, so that
// the lock can be inspected.
func (a *App) buildOrders(
	configs map[string]service.StrategyConfig, wrap func(order.Store) order.Store,
) error {
	ledger := a.ledgers[a.cfg.Store]
	store := a.stores[a.cfg.Store]
	config := order.Config{
		Store: ledger, Needs: store.Needs, Work: a.cfg.Work, Waiting: a.cfg.Limits.Waiting,
		KeepKey: a.cfg.Orders.KeepKeys, Swept: a.metrics.Overdue, Owner: a.cfg.Instance, Log: a.log,
	}
	if a.cfg.Profile == ordersProfile {
		config.Limits = order.Limits(a.cfg.Reservations)
		config.Ended = a.saleEnded(handler.Failures())
	}
	if store.Data != nil {
		a.watched = order.Watch(ledger, store.Data)
		config.Data, config.Store = store.Data, a.watched
	}
	config.Store = wrap(config.Store)
	if s, ok := a.cfg.locked(); ok {
		built, there := configs[s.Name]
		if !there {
			built = a.build(s)
			configs[s.Name] = built
		}
		if built.Lock == nil {
			return wrong("orders.strategy", "lock-needs", "strategy", s.Name, "servers", s.Needs)
		}
		config.Lock, config.LockNeeds = built.Lock, built.Needs
		if s.Promise.Blocking {
			config.Wait = a.cfg.Wait
		}
	}
	if a.cfg.Orders.Merge {
		config = config.Merged(order.MergeOptions{
			Limit: a.cfg.Merge.Limit, Queue: a.cfg.Merge.Queue, Trace: a.traces.Batch(),
		})
	}
	if config.Ledger == nil {
		config.Ledger = config.Store
	}
	config.Ledger = a.traces.Ledger(config.Ledger)
	a.orders = order.New(config)
	return nil
}

// saleEnded returns what records a sale. A failure counts only while the servers pass their checks, because otherwise
// the instance is not ready anyway, and is ready again as soon as they do.
func (a *App) saleEnded(failure func(error) bool) func(string, []service.SKU, error) {
	return func(customer string, skus []service.SKU, err error) {
		if err == nil {
			a.sales.Sold()
			return
		}
		if a.orders.Err() != nil || !failure(err) || errors.Is(err, order.ErrUnbalanced) {
			return
		}
		names := make([]string, len(skus))
		for i, sku := range skus {
			names[i] = string(sku)
		}
		if a.sales.Failed(customer, names...) {
			a.log.Error("every sale fails, although the servers pass their checks: not ready", "err", err)
		}
	}
}

// sells reports what the shop can sell, and why it is not ready.
func (a *App) sells(shop *orders.Part) (map[string]handler.StoreReply, string) {
	stores, why := shop.Sells()
	if why == "" && a.sales.Fail() {
		why = "every sale fails"
	}
	return stores, why
}
