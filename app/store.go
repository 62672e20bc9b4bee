package app

import (
	"context"
	"errors"
	"time"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// A store has the clients and checks of one store.
type store struct {
	name string
	// parts means that the server has several nodes, as a Redis Cluster has. If the node that has the store's origin
	// does not answer, the store stays up for the SKUs of the other nodes.
	parts bool
	sales sales
	ping  func(context.Context) error
	ready func(context.Context) error // runs every time that the server comes up; may be nil
	// canWrite replaces ping while the server is up, and needs the tables that ready makes; nil: ping tests writes
	// itself.
	canWrite func(context.Context) error
	data     service.Data
}

// sales is the store that sellers need.
type sales interface {
	service.Shop
	Answers() uint64
}

// withoutStore registers a store whose server no setting names.
func (a *App) withoutStore(name, why string) {
	a.backends[name] = health.Absent(name, why)
	a.stores[name] = service.StoreConfig{Needs: a.backends[name], Data: service.Trusted{}}
}

// addStore registers a store and its backend. Every probe checks that the store accepts writes and
// still has its data.
func (a *App) addStore(s store) {
	p := &storeProbe{store: s, app: a, fresh: true}
	a.backends[s.name] = health.New(s.name, p.check)
	a.stores[s.name] = service.StoreConfig{Store: s.sales, Needs: a.backends[s.name], Data: s.data}
}

// A storeProbe is the health check of a store.
type storeProbe struct {
	store
	app   *App
	fresh bool // the server has just come up
	known bool // the data were found once
}

func (p *storeProbe) check(ctx context.Context) error {
	err := health.Heard(p.ask, p.sales.Answers)(ctx)
	if _, partly := errors.AsType[*health.ImpairedError](err); err != nil && !partly {
		p.fresh = true
		return err
	}
	if p.fresh {
		// A migration takes longer than a probe, and may wait for another instance's migration.
		long, cancel := context.WithTimeout(p.app.probing, time.Minute)
		defer cancel()
		ctx = long
		if bad := p.prepare(ctx); bad != nil {
			return bad
		}
	}
	if bad := p.data.Check(ctx); bad != nil {
		p.fresh = true
		switch {
		case err != nil:
			return err // the origin may be in a slot that is not served
		case p.parts && p.known:
			return &health.ImpairedError{Reason: "the part that tells whether the data is there does not answer"}
		}
		return bad
	}
	p.fresh, p.known = false, true
	return err
}

func (p *storeProbe) ask(ctx context.Context) error {
	if p.fresh || p.canWrite == nil {
		return p.ping(ctx)
	}
	return p.canWrite(ctx)
}

// prepare makes a store ready whose server has just come up.
func (p *storeProbe) prepare(ctx context.Context) error {
	if p.ready != nil {
		if err := p.ready(ctx); err != nil {
			// backendChanged logs a bare DownError, once.
			if _, bare := err.(*driver.DownError); !bare && p.app.probing.Err() == nil {
				p.app.log.Error("prepare "+p.name, "err", err)
			}
			return err
		}
	}
	if p.canWrite != nil {
		return p.canWrite(ctx)
	}
	return nil
}

// dataChanged records and logs that a store has, or lacks, its data.
func (a *App) dataChanged(name string, bad error) {
	lost := errors.Is(bad, service.ErrDataLost)
	a.metrics.DataLost(name, lost)
	switch {
	case lost:
		a.log.Error(
			"store has lost its data: nothing is sold until a person sets the stock", "store", name, "reason",
			bad,
		)
	case bad != nil:
		a.log.Warn("store cannot be used yet", "store", name, "reason", bad)
	default:
		a.log.Info("store has its data", "store", name)
	}
}

// backend returns the named backend for the handler. A store also counts as down while its data are lost.
func (a *App) backend(name string) handler.Backend {
	if store, is := a.stores[name]; is {
		return storeBackend{a.backends[name], store.Data}
	}
	return a.backends[name]
}

type storeBackend struct {
	*health.Backend
	data service.Data
}

// Err returns nil if the server is up and the store has its data.
func (b storeBackend) Err() error {
	if err := b.Backend.Err(); err != nil {
		return err
	}
	return b.data.Err()
}
