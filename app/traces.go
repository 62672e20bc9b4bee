package app

import "example.com/stock/app/traces"

// openTraces switches traces on if the environment says so. It comes before the servers are opened, and so ends after
// they were closed.
func (a *App) openTraces() (err error) {
	a.traces, err = traces.Open(traces.Config{
		Version: a.version, Instance: a.cfg.Instance, SKU: a.cfg.Traces.SKU, Log: a.log,
	})
	a.closers = append(a.closers, a.traces.Close)
	return err
}
