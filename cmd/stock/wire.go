package main

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"example.com/stock/handler"
	"example.com/stock/health"
	"example.com/stock/lock"
	"example.com/stock/metrics"
	"example.com/stock/service"
	"example.com/stock/strategy"
)

// An app is everything that one instance has opened. Opening waits for no server: each is up when it is up.
type app struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics.Metrics
	servers  strategy.Servers
	backends map[string]*health.Backend     // by name
	shelves  map[string]service.StoreConfig // by store
	service  *service.Service
	pauses   service.Pauses // of lab mode
	offers   []handler.Strategy

	witnesses map[string]witness // by store: what each knows of its own data and of the other's

	probes  sync.WaitGroup
	life    context.Context // of the probes
	stop    context.CancelFunc
	closers []func() error // in the order of opening
}

// newApp is an app that has opened nothing yet.
func newApp(cfg Config, log *slog.Logger) *app {
	return &app{
		cfg: cfg, log: log, metrics: metrics.New(version, cfg.Instance),
		servers: strategy.Servers{
			SetNXLease: cfg.Lock.SetNXLease, WatchdogLease: cfg.Lock.WatchdogLease, WatchdogMaxHold: cfg.Lock.MaxHold,
			Replicas: cfg.Lock.Replicas, ReplicaTimeout: cfg.Lock.ReplicaTimeout, MySQLKeys: cfg.MySQL.LockKeys,
			RepairSetNX: cfg.Lock.RepairSetNX, Segments: cfg.Lock.Segments, PlainLocks: !cfg.Lock.HandOver, Log: log,
		},
		backends: make(map[string]*health.Backend),
		shelves:  make(map[string]service.StoreConfig),

		witnesses: make(map[string]witness),
	}
}

func openApp(cfg Config, log *slog.Logger) (*app, error) {
	a := newApp(cfg, log)
	for _, server := range a.openers() {
		if err := server.open(); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	a.introduce()
	if err := a.offer(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	return a, nil
}

// offer builds the catalogue on what has been opened.
func (a *app) offer() (err error) {
	offers := make(map[string]service.StrategyConfig)
	for _, s := range strategy.All() {
		offer := service.StrategyConfig{
			Blocking: s.Promise.Blocking, Stores: s.Stores, Segmented: s.Around != nil, Fits: s.Fits,
		}
		shown := handler.Strategy{
			Name: s.Name, Endpoint: s.Endpoint, Summary: s.Summary.EN, Promise: s.Promise, RoundTrips: s.RoundTrips,
		}
		configured := true
		for _, need := range s.Needs {
			offer.Needs = append(offer.Needs, a.backends[need])
			shown.Needs = append(shown.Needs, a.backends[need])
			configured = configured && !a.backends[need].IsAbsent()
		}
		if configured {
			var closer func() error
			offer.Seller, closer = s.Build(a.servers, func(l lock.Locker) lock.Locker {
				offer.Lock = lock.Observe(l, a.metrics.Lock(s.Name))
				return offer.Lock
			})
			a.closers = append(a.closers, closer)
		}
		for _, store := range a.stores(s) {
			shown.Stores = append(shown.Stores, handler.Store{Name: store, Backend: a.usable(store)})
		}
		offers[s.Name] = offer
		a.offers = append(a.offers, shown)
	}
	a.service, err = service.New(service.Config{
		Instance: a.cfg.Instance, Strategies: offers, Stores: a.shelves, DefaultStore: a.cfg.Store, Wait: a.cfg.Wait, Work: a.cfg.Work,
		Pauses: &a.pauses, Waiting: a.cfg.Limits.Waiting,
	})
	return err
}

// stores are those that s works on, the default first.
func (a *app) stores(s strategy.Strategy) []string {
	list := s.Stores
	if len(list) == 0 {
		list = []string{strategy.Redis, strategy.MySQL}
	}
	list = slices.Clone(list)
	if i := slices.Index(list, a.cfg.Store); i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}

// patience is how long start waits for the first answers.
const patience = 2 * health.Timeout

// start probes every backend until close. It returns when each has been asked once, so that the first requests find
// the servers that are there, or after patience: a migration takes longer, and an instance that does not answer
// /livez is killed.
func (a *app) start(ctx context.Context) {
	a.life, a.stop = context.WithCancel(ctx)
	changed := func(name string, down error) {
		impaired, some := errors.AsType[*health.ImpairedError](down)
		if some {
			down = nil
			a.metrics.Impaired(name, impaired)
		} else {
			a.metrics.Impaired(name, nil)
		}
		a.metrics.Backend(name, down)
		switch {
		case some:
			a.log.Warn("backend is up, but not for everything", "backend", name, "reason", impaired)
		case down != nil:
			a.log.Warn("backend is down", "backend", name, "reason", down)
		default:
			a.log.Info("backend is up", "backend", name)
		}
	}
	var first sync.WaitGroup
	for _, b := range a.backends {
		a.metrics.Backend(b.Name(), b.Err())
		first.Add(1)
		a.probes.Go(func() { b.Run(a.life, first.Done, changed) })
	}
	asked := make(chan struct{})
	a.probes.Go(func() {
		first.Wait()
		a.settle()
		close(asked)
	})
	select {
	case <-asked:
	case <-time.After(patience):
	}
}

// settle looks at the stores once more when all servers have been asked: each is seeded only after the other was
// asked what it remembers, and the first requests should not have to wait for the next probe.
func (a *app) settle() {
	ctx, cancel := context.WithTimeout(a.life, health.Timeout)
	defer cancel()
	for _, shelf := range a.shelves {
		if shelf.Data != nil && shelf.Needs.Err() == nil {
			_ = shelf.Data.Check(ctx) // or the next probe tells
		}
	}
}

// close ends the probes and closes everything, the last opened first.
func (a *app) close() error {
	if a.stop != nil {
		a.stop()
	}
	a.probes.Wait()
	var errs []error
	for _, closer := range slices.Backward(a.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}
