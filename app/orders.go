package app

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"example.com/stock/order"
	"example.com/stock/service"
)

// lazySweep is the pause of a demonstration that has sold no order between its looks for reservations that are over. It
// must not be in the way of what is shown.
const lazySweep = 5 * time.Second

var errNotConfigured = errors.New("it is not configured")

// buildOrders builds the order service on the default store. configs are the strategies that are built: the lock of one
// is the lock of orders, too. What only orders need is added, so that its lock can be looked at.
func (a *App) buildOrders(configs map[string]service.StrategyConfig) error {
	ledger := a.ledgers[a.cfg.Store]
	if ledger == nil {
		if a.cfg.Profile == ordersProfile {
			return fmt.Errorf("profile orders, store %s: %w", a.cfg.Store, cmp.Or(a.noLedger, errNotConfigured))
		}
		return nil
	}
	store := a.stores[a.cfg.Store]
	config := order.Config{
		Store: ledger, Needs: store.Needs, Data: store.Data, Work: a.cfg.Work, Waiting: a.cfg.Limits.Waiting,
		KeepKey: a.cfg.Orders.KeepKeys, Owner: a.cfg.Instance, Log: a.log,
	}
	if a.cfg.Profile != ordersProfile {
		config.Lazy = lazySweep
	}
	if s, ok := a.cfg.locked(); ok {
		built, there := configs[s.Name]
		if !there {
			built = a.build(s)
			configs[s.Name] = built
		}
		if built.Lock == nil {
			return fmt.Errorf("orders.strategy: %s needs %v, which is not configured", s.Name, s.Needs)
		}
		config.Lock, config.LockNeeds = built.Lock, built.Needs
		if s.Promise.Blocking {
			config.Wait = a.cfg.Wait
		}
	}
	a.orders = order.New(config)
	return nil
}
