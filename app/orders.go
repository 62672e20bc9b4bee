package app

import (
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
		KeepKey: a.cfg.Orders.KeepKeys, Owner: a.cfg.Instance, Log: a.log,
	}
	if a.cfg.Profile == ordersProfile {
		config.Limits = order.Limits(a.cfg.Reservations)
	}
	if a, ok := ledger.(order.Archivable); ok {
		config.Gone = order.GoneFrom(a)
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
		config = config.Merged(order.MergeOptions{Limit: a.cfg.Merge.Limit, Queue: a.cfg.Merge.Queue})
	}
	a.orders = order.New(config)
	return nil
}
