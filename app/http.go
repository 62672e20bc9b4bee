package app

import (
	"cmp"
	"net/http"
	"runtime"

	"example.com/stock/handler"
	"example.com/stock/handler/demo"
	"example.com/stock/handler/orders"
	"example.com/stock/service"
)

// http returns what the profile serves.
func (a *App) http(draining func() bool) handler.Config {
	c := handler.Config{
		Instance: a.cfg.Instance, AdminToken: a.cfg.AdminToken, Meter: a.metrics, Metrics: a.metrics.Handler(),
		Log: a.log, Draining: draining,
		Version: handler.Version{
			Version: a.version, Commit: Commit(), Go: runtime.Version(), Instance: a.cfg.Instance,
		},
	}
	for name := range a.backends {
		c.Backends = append(c.Backends, a.backend(name))
	}
	if a.cfg.Profile == ordersProfile {
		a.serveShop(&c)
	} else {
		a.serveDemo(&c)
	}
	return c
}

// serveDemo is for class: the client chooses the strategy and the store, and need not name a SKU. Orders are sold
// beside the strategies, on the default store.
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

// serveShop is for customers: the client chooses neither strategy nor store, stock is kept by the ledger of orders, and
// a shop has no lab. A client that is one of too many is told so by 409 or 429: the service is well.
func (a *App) serveShop(c *handler.Config) {
	strategies := a.demoConfig()
	strategies.Fixed = true
	shop := orders.New(orders.Config{Orders: a.orders, Store: a.cfg.Store})
	c.Parts, c.Sells = append(c.Parts, demo.New(strategies), shop), shop.Sells
	c.Crowded = handler.Crowded{Contended: http.StatusConflict, TooMany: http.StatusTooManyRequests}
}

func (a *App) demoConfig() demo.Config {
	readyStore := a.cfg.Store
	if b := a.backends[readyStore]; b == nil || b.IsAbsent() {
		readyStore = "" // what is not there by choice is not waited for
	}
	return demo.Config{
		Seller: a.service, Inventory: a.service, Locks: a.service, Pauses: &a.pauses, Holds: &a.pauses, Steps: a.steps,
		Strategies: a.strategies, Store: a.cfg.Store, ReadyStore: readyStore,
		DefaultSKU: service.SKU(cmp.Or(a.cfg.Seed.SKU, defaultSKU)), Meter: a.metrics,
	}
}
