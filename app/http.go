package app

import (
	"cmp"
	"runtime"

	"example.com/stock/handler"
	"example.com/stock/handler/demo"
	"example.com/stock/service"
)

// http returns the configuration of the HTTP handlers.
func (a *App) http(draining func() bool) handler.Config {
	c := handler.Config{
		Instance: a.cfg.Instance, Admins: a.admins, Meter: a.metrics, Metrics: a.metrics.Handler(),
		Log: a.log, Draining: draining,
		Version: handler.Version{
			Version: a.version, Commit: Commit(), Go: runtime.Version(), Instance: a.cfg.Instance,
		},
	}
	if a.traces != nil { // a nil *Traces would not be a nil Tracer
		c.Tracer = a.traces
	}
	for name := range a.backends {
		c.Backends = append(c.Backends, a.backend(name))
	}
	part := demo.New(a.demoConfig())
	c.Parts, c.Sells = []handler.Part{part}, part.Sells
	return c
}

func (a *App) demoConfig() demo.Config {
	readyStore := a.cfg.Store
	if b := a.backends[readyStore]; b == nil || b.IsAbsent() {
		readyStore = "" // readiness does not wait for a store that is not configured
	}
	return demo.Config{
		Seller: a.traces.Seller(a.service), Inventory: a.service, Locks: a.service,
		Pauses: &a.pauses, Holds: &a.pauses, Steps: a.steps,
		Strategies: a.strategies, Lab: a.cfg.Lab, Store: a.cfg.Store, ReadyStore: readyStore,
		DefaultSKU: service.SKU(cmp.Or(a.cfg.Seed.SKU, defaultSKU)), Meter: a.metrics,
	}
}
