package app

import (
	"errors"
	"os"
	"slices"

	"example.com/stock/app/traces"
)

// Values of the setting traces.attributes.
const (
	skuAttribute      = "sku"
	customerAttribute = "customer"
)

// openTraces switches traces on if the environment says so. It comes before the servers are opened, and so ends after
// they were closed.
func (a *App) openTraces() (err error) {
	attributes := a.cfg.Traces.Attributes
	a.traces, err = traces.Open(traces.Config{
		Version: a.version, Instance: a.cfg.Instance, Log: a.log, Getenv: os.Getenv,
		SKU:      slices.Contains(attributes, skuAttribute),
		Customer: slices.Contains(attributes, customerAttribute),
	})
	if bad, ok := errors.AsType[*traces.EnvError](err); ok {
		if len(bad.Known) == 0 {
			return wrong(bad.Name, "unusable", "value", quote(bad.Value))
		}
		return wrong(bad.Name, "none-of", "value", quote(bad.Value), "list", bad.Known)
	}
	if err != nil || a.traces == nil {
		return err
	}
	a.closers = append(a.closers, a.traces.Close)
	a.log = a.traces.Logger(a.log)
	a.metrics.Exemplars(a.traces.SampledID)
	return nil
}
