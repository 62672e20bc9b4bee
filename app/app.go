// Package app is one instance of the service: it loads the configuration, opens clients of the servers, builds the
// service on them, listens, and shuts down in order.
//
//	cfg, err := app.Load(flags)
//	a, err := app.New(cfg, version, log)
//	err = a.Run(ctx) // until ctx ends
//
// It uses no state of the process: several instances can run in one process, at the same time or one after the other.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"

	"example.com/stock/app/health"
	"example.com/stock/app/metrics"
	"example.com/stock/app/traces"
	"example.com/stock/handler"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// An App is one instance. New waits for no server. A server that is down is used as soon as it is up.
type App struct {
	cfg     Config
	version string
	log     *slog.Logger

	listener  net.Listener // for clients
	operators net.Listener // nil: none

	serverTLS  func() (*tls.Config, error) // the first call reads the files
	traces     traces.Traces
	metrics    *metrics.Metrics
	servers    strategy.Servers
	backends   map[string]*health.Backend     // by name
	stores     map[string]service.StoreConfig // by name
	service    *service.Service
	pauses     service.Pauses // of lab mode
	steps      *service.Steps // of lab mode; nil outside it
	strategies []handler.Strategy
	permits    []*health.Backend // of the strategies with a lock on a server

	probes     sync.WaitGroup
	probing    context.Context // the probes run until it ends
	stopProbes context.CancelFunc
	closers    []func() error // in order of opening
}

// New opens the listeners and the clients of an instance. It waits for no server. The caller must call Run, which
// closes everything.
func New(cfg Config, version string, log *slog.Logger) (*App, error) {
	a := newApp(cfg, version, log)
	if err := a.openTraces(); err != nil {
		return nil, err
	}
	if err := a.listen(); err != nil {
		return nil, errors.Join(err, a.close())
	}
	for _, s := range a.openers() {
		if err := s.open(); err != nil {
			return nil, errors.Join(err, a.closeListeners(), a.close())
		}
	}
	a.buildService()
	return a, nil
}

// newApp returns an App without listeners and clients.
func newApp(cfg Config, version string, log *slog.Logger) *App {
	cfg.complete()
	a := &App{
		cfg: cfg, version: version, log: log, metrics: metrics.New(version, cfg.Instance),
		servers: strategy.Servers{
			SetNXLease: cfg.Lock.SetNXLease, WatchdogLease: cfg.Lock.WatchdogLease, WatchdogMaxHold: cfg.Lock.MaxHold,
			LeaseTime: cfg.Lock.LeaseTime, RepairSetNX: cfg.Lock.RepairSetNX, Segments: cfg.Lock.Segments,
			// A lock whose replicas do not acknowledge must be refused before its command times out.
			Replicas: cfg.Lock.Replicas, ReplicaTimeout: cfg.Redis.Timeout / 2,
			MergeQueue: cfg.Merge.Queue, PlainLocks: !cfg.Lock.HandOver, Log: log,
		},
		backends: make(map[string]*health.Backend),
		stores:   make(map[string]service.StoreConfig),
	}
	a.serverTLS = sync.OnceValues(a.readServerTLS)
	return a
}

// openTraces switches traces on if the environment says so. It comes before the servers are opened, and so ends after
// they were closed.
func (a *App) openTraces() (err error) {
	a.traces, err = traces.Open(traces.Config{
		Version: a.version, Instance: a.cfg.Instance, SKU: a.cfg.Traces.SKU, Log: a.log,
	})
	a.closers = append(a.closers, a.traces.Close)
	return err
}

// buildStrategies builds every strategy on the open clients.
func (a *App) buildStrategies() map[string]service.StrategyConfig {
	configs := make(map[string]service.StrategyConfig)
	for _, s := range strategy.All() {
		config := a.build(s)
		shown := handler.Strategy{
			Name: s.Name, Endpoint: s.Endpoint, Summary: s.Summary.EN, Promise: s.Promise, RoundTrips: s.RoundTrips,
		}
		for _, need := range config.Needs {
			shown.Needs = append(shown.Needs, need.(*health.Backend))
		}
		for _, store := range a.cfg.storesOf(s) {
			shown.Stores = append(shown.Stores, handler.Store{Name: store, Backend: a.backend(store)})
		}
		configs[s.Name] = config
		a.strategies = append(a.strategies, shown)
	}
	return configs
}

// waiting is the number of sales that wait for a lock or are under way before further ones get 503 overloaded. Each
// takes some 50 kB.
const waiting = 10_000

func (a *App) buildService() {
	config := service.Config{
		Instance: a.cfg.Instance, Strategies: a.buildStrategies(), Stores: a.stores, DefaultStore: a.cfg.Store,
		Wait: a.cfg.Wait, Work: a.cfg.Work, Pauses: &a.pauses, Waiting: waiting,
	}
	if a.cfg.Lab {
		a.steps = service.NewSteps(keptSteps)
		config.Watch = a.steps
	}
	a.service = service.New(config)
}

// keptSteps is how many steps of sales an instance in lab mode keeps for viewers, of some 200 bytes each.
const keptSteps = 4096

// build builds a strategy. If a server that it needs is not configured, the result has no Seller, and its needs
// report why.
func (a *App) build(s strategy.Strategy) service.StrategyConfig {
	config := service.StrategyConfig{
		Blocking: s.Promise.Blocking, Stores: s.Stores, Segmented: s.Segmented,
		// In the lab a guard does not end, because a stock must stay unchanged after a scenario.
		Weak: s.Promise.Scope != driver.Cluster && !a.cfg.Lab,
	}
	configured := true
	var servers []*health.Backend
	for _, name := range s.Needs {
		server := a.backends[name]
		configured = configured && !server.IsAbsent()
		servers = append(servers, server)
		config.Needs = append(config.Needs, server)
	}
	if configured {
		var closer func() error
		config.Seller, closer = s.Build(a.servers, func(l lock.Locker) lock.Locker {
			events := a.metrics.Lock(s.Name)
			events.Asked = a.traces.Lock(s.Name)
			config.Lock = lock.Observe(l, events)
			if len(servers) > 0 {
				permit := a.permit(s.Name, l, servers)
				a.permits = append(a.permits, permit)
				config.Needs = append(config.Needs, permit)
			}
			return config.Lock
		})
		a.closers = append(a.closers, closer)
	}
	return config
}
