package app

import (
	"cmp"
	"runtime"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// http returns the configuration of the HTTP handlers.
func (a *App) http(draining func() bool) handler.Config {
	readyStore := a.cfg.Store
	if b := a.backends[readyStore]; b == nil || b.IsAbsent() {
		readyStore = "" // readiness does not wait for a store that is not configured
	}
	c := handler.Config{
		Service: a.service, Strategies: a.strategies, DefaultSKU: service.SKU(cmp.Or(a.cfg.Seed.SKU, defaultSKU)),
		Store: a.cfg.Store, ReadyStore: readyStore,
		Admins: handler.NewTokens(a.cfg.AdminToken), Lab: a.cfg.Lab, Pauses: &a.pauses, Steps: a.steps,
		Instance: a.cfg.Instance, Meter: a.metrics, Metrics: a.metrics.Handler(), Log: a.log, Draining: draining,
		Version: handler.Version{
			Version: a.version, Commit: Commit(), Go: runtime.Version(), Instance: a.cfg.Instance,
		},
	}
	if a.traces.On {
		c.Traces, c.TracePaths = a.traces.Provider, a.traces.SKU
	}
	for name := range a.backends {
		c.Backends = append(c.Backends, a.backend(name))
	}
	return c
}
