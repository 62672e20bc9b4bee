package app

import (
	"cmp"
	"net/http"

	"example.com/stock/handler"
	"example.com/stock/handler/demo"
	"example.com/stock/handler/orders"
	"example.com/stock/service/order"
)

// buildShop builds the service for customers: the client chooses neither strategy nor store, the ledger of orders
// keeps the stock, and there is no lab.
func (a *App) buildShop() error {
	a.serve = a.serveShop
	if a.ledgers[a.cfg.Store] == nil {
		return failure("no-ledger", "store", a.cfg.Store, "why", cmp.Or(a.noLedger, failure("not-configured")))
	}
	configs := a.buildStrategies()
	if err := a.buildOrders(configs, func(s order.Store) order.Store { return s }); err != nil {
		return err
	}
	return a.buildService(configs)
}

// serveShop replies 409 or 429 to requests over the limit, because the service itself is healthy.
func (a *App) serveShop(c *handler.Config) {
	strategies := a.demoConfig()
	strategies.Fixed = true
	shop := orders.New(orders.Config{Orders: a.orders, Store: a.cfg.Store})
	c.Parts = append(c.Parts, demo.New(strategies), shop)
	c.Sells = func() (map[string]handler.StoreReply, string) { return a.sells(shop) }
	c.Crowded = handler.Crowded{Contended: http.StatusConflict, TooMany: http.StatusTooManyRequests}
}
