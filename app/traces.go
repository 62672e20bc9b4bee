package app

import (
	"errors"
	"fmt"
	"os"

	"example.com/stock/app/traces"
)

// openTraces switches traces on if the environment says so. It comes before the servers are opened, and so ends after
// they were closed.
func (a *App) openTraces() (err error) {
	a.traces, err = traces.Open(traces.Config{
		Version: a.version, Instance: a.cfg.Instance, SKU: a.cfg.Traces.SKU, Log: a.log, Getenv: os.Getenv,
	})
	if bad, ok := errors.AsType[*traces.EnvError](err); ok {
		if len(bad.Known) == 0 {
			return fmt.Errorf("%s: %q cannot be used", bad.Name, bad.Value)
		}
		return fmt.Errorf("%s: %w", bad.Name, oneOf(bad.Known...)(bad.Value))
	}
	if err != nil || a.traces == nil {
		return err
	}
	a.closers = append(a.closers, a.traces.Close)
	a.log = a.traces.Logger(a.log)
	a.metrics.Exemplars(a.traces.SampledID)
	return nil
}
