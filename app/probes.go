package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/internal/words"
)

// firstProbes is how long startProbes waits for the first probes.
const firstProbes = 2 * health.Timeout

// startProbes probes every backend until close. It returns after the first probe of every backend, so that the first
// requests find the servers up, but at the latest after firstProbes: a migration may take longer, and an orchestrator
// kills an instance that does not answer /livez.
func (a *App) startProbes(ctx context.Context) {
	a.probing, a.stopProbes = context.WithCancel(ctx)
	var first sync.WaitGroup
	for _, b := range a.backends {
		if !b.IsAbsent() { // nobody must be alerted for a server that no setting names
			a.metrics.Backend(b.Name(), b.Err())
		}
		first.Add(1)
		a.probes.Go(func() { b.Run(a.probing, first.Done, a.backendChanged) })
	}
	for _, p := range a.permits {
		a.probes.Go(func() { p.Run(a.probing, func() {}, a.permitChanged) })
	}
	asked := make(chan struct{})
	a.probes.Go(func() {
		first.Wait()
		close(asked)
	})
	select {
	case <-asked:
	case <-time.After(firstProbes):
	}
}

// backendChanged records and logs that a backend is up, up with a warning, or down.
func (a *App) backendChanged(name string, down error) {
	impaired, partly := errors.AsType[*health.ImpairedError](down)
	if partly {
		down = nil
		a.metrics.Impaired(name, impaired)
	} else {
		a.metrics.Impaired(name, nil)
	}
	a.metrics.Backend(name, down)
	switch {
	case partly:
		a.log.Warn("backend is up, but impaired", "backend", name, "reason", impaired)
	case down != nil:
		a.log.Warn("backend is down", "backend", name, "reason", words.Of(down, handler.Said).EN,
			"cause", a.backends[name].Cause())
	default:
		a.log.Info("backend is up", "backend", name)
	}
}

// close ends the probes and closes everything, in reverse order of opening.
func (a *App) close() error {
	if a.stopProbes != nil {
		a.stopProbes()
	}
	a.probes.Wait()
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}
