package app

import (
	"time"

	"example.com/stock/handler"
	"example.com/stock/handler/demo"
	"example.com/stock/handler/orders"
	"example.com/stock/service/order"
)

// lazySweep is the pause between sweeps of expired reservations in a demonstration that has sold no order. Frequent
// sweeps would disturb the measurements.
const lazySweep = 5 * time.Second

// buildDemo builds the demonstration for class: the client chooses the strategy and the store, and need not name a SKU.
// If the default store can keep orders, the service also has the endpoints for orders.
func (a *App) buildDemo() error {
	a.serve = a.serveDemo
	configs := a.buildStrategies()
	if a.ledgers[a.cfg.Store] != nil {
		lazily := func(s order.Store) order.Store { return order.Lazily(s, lazySweep) }
		if err := a.buildOrders(configs, lazily); err != nil {
			return err
		}
	}
	return a.buildService(configs)
}

func (a *App) serveDemo(c *handler.Config) {
	strategies := a.demoConfig()
	strategies.Lab = a.cfg.Lab
	if a.orders != nil {
		shop := orders.New(orders.Config{Orders: a.orders, Store: a.cfg.Store, SharesStock: true})
		strategies.Ledger = shop
		c.Parts = append(c.Parts, shop)
	}
	part := demo.New(strategies)
	c.Parts, c.Sells = append(c.Parts, part), part.Sells
}
