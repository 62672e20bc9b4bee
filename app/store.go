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
	name  string
	place string // the store's address, by which the other store remembers it
	// parts means that the server has several nodes, as a Redis Cluster has. If the node that has the store's origin
	// does not answer, the store stays up for the SKUs of the other nodes.
	parts  bool
	sales  sales
	memory memory
	ping   func(context.Context) error
	ready  func(context.Context) error // runs every time that the server comes up; may be nil
	// canWrite replaces ping while the server is up, and needs the tables that ready makes; nil: ping tests writes
	// itself.
	canWrite func(context.Context) error
}

// sales is the store that sellers need.
type sales interface {
	service.Store
	service.Inventory
	Answers() uint64
}

// memory has the methods by which a store records its own origin and the origin of the other store.
type memory interface {
	service.Origins
	service.Memory
}

// withoutStore registers a store whose server no setting names.
func (a *App) withoutStore(name, why string) {
	a.backends[name] = health.Absent(name, why)
	a.stores[name] = service.StoreConfig{Needs: a.backends[name]}
}

// addStore registers a store and its backend. Every probe checks that the store accepts writes and still has its
// data. The first check of a new store also seeds it.
func (a *App) addStore(s store) {
	data := service.NewDataCheck(service.DataCheckConfig{
		Name: s.name, Place: s.place, Origins: s.memory,
		Seed:    service.Seed{SKU: service.SKU(a.cfg.Seed.SKU), Quantity: int64(a.cfg.Seed.Quantity)},
		Changed: func(bad error) { a.dataChanged(s.name, bad) },
	})
	c := &storeCheck{app: a, store: s, data: data, fresh: true}
	c.ask = health.Heard(c.asked, s.sales.Answers)
	a.backends[s.name] = health.New(s.name, c.check)
	a.stores[s.name] = service.StoreConfig{Store: s.sales, Needs: a.backends[s.name], Data: data}
	a.memories[s.name] = s.memory
}

// A storeCheck is the probe of a store.
type storeCheck struct {
	store
	app   *App
	data  *service.DataCheck
	ask   func(context.Context) error
	fresh bool // the server has just come up
	known bool // the data were found once
}

// asked is what a probe asks the server, unless a sale has just had an answer.
func (c *storeCheck) asked(ctx context.Context) error {
	if c.fresh || c.canWrite == nil {
		return c.ping(ctx)
	}
	return c.canWrite(ctx)
}

func (c *storeCheck) check(ctx context.Context) error {
	err := c.ask(ctx)
	if _, partly := errors.AsType[*health.ImpairedError](err); err != nil && !partly {
		c.fresh = true
		return err
	}
	if c.fresh {
		// A migration takes longer than a probe, and may wait for another instance's migration.
		long, cancel := context.WithTimeout(c.app.probing, time.Minute)
		defer cancel()
		ctx = long
		if bad := c.prepare(ctx); bad != nil {
			return bad
		}
	}
	if bad := c.data.Check(ctx); bad != nil {
		c.fresh = true // an empty database lacks its tables, too
		switch {
		case err != nil:
			return err // the origin may be in a slot that is not served
		case c.parts && c.known:
			return &health.ImpairedError{Reason: "the part that tells whether the data is there does not answer"}
		}
		return bad
	}
	c.fresh, c.known = false, true
	return err
}

// prepare makes a server usable that has just come up.
func (c *storeCheck) prepare(ctx context.Context) error {
	if c.ready != nil {
		if err := c.ready(ctx); err != nil {
			// backendChanged logs a bare DownError, once.
			if _, bare := err.(*driver.DownError); !bare && c.app.probing.Err() == nil {
				c.app.log.Error("prepare "+c.name, "err", err)
			}
			return err
		}
	}
	if c.canWrite != nil {
		return c.canWrite(ctx)
	}
	return nil
}

// linkStores makes each store record the origin of the other.
func (a *App) linkStores() {
	for name, store := range a.stores {
		for other, memory := range a.memories {
			if store.Data != nil && other != name {
				store.Data.RememberIn(service.OtherStore{Name: other, Memory: memory, Server: a.backends[other]})
			}
		}
	}
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
	for other, store := range a.stores {
		if other != name && store.Data != nil {
			store.Data.RememberAgain() // the restarted store may have lost its record of the other store
		}
	}
}

// backend returns the named backend for the handler. A store also counts as down while its data are lost.
func (a *App) backend(name string) handler.Backend {
	if data := a.stores[name].Data; data != nil {
		return storeBackend{a.backends[name], data}
	}
	return a.backends[name]
}

type storeBackend struct {
	*health.Backend
	data *service.DataCheck
}

// Err returns nil if the server is up and the store has its data.
func (b storeBackend) Err() error {
	if err := b.Backend.Err(); err != nil {
		return err
	}
	return b.data.Err()
}
