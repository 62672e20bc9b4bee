// Package app is one running instance of the service: its configuration, the servers it opens, what is built on them,
// its listeners, and its orderly end.
//
//	cfg, err := app.Load(flags)
//	a, err := app.New(cfg, version, log)
//	err = a.Run(ctx) // until ctx ends
//
// It uses no state of the process: several instances can run in one process, at the same time or one after the other.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/handler"
	"example.com/stock/health"
	"example.com/stock/lock"
	"example.com/stock/metrics"
	"example.com/stock/order"
	"example.com/stock/relay"
	"example.com/stock/service"
	"example.com/stock/strategy"
)

// An App is one instance. Opening it waits for no server: each backend comes up by itself.
type App struct {
	cfg     Config
	version string
	log     *slog.Logger

	listener  net.Listener // for customers
	operators net.Listener // nil: none

	connections *connections // to the listener for customers

	metrics    *metrics.Metrics
	servers    strategy.Servers
	backends   map[string]*health.Backend     // by name
	stores     map[string]service.StoreConfig // by name
	memories   map[string]memory              // by store: what it remembers of its own data and of the other's
	service    *service.Service
	pauses     service.Pauses         // of lab mode
	steps      *service.Steps         // of lab mode; nil outside it
	ledgers    map[string]order.Store // by store: those that keep orders of customers
	noLedger   error                  // why a store that is there keeps none
	orders     *order.Service         // nil: the store keeps none
	strategies []handler.Strategy
	relay      *relay.Relay // nil: it is not enabled

	probes     sync.WaitGroup
	probing    context.Context // of the probes
	stopProbes context.CancelFunc
	closers    []func() error // in the order of opening
}

// New opens the listeners and the clients of an instance. It waits for no server. The caller must call Run, which
// closes everything again.
func New(cfg Config, version string, log *slog.Logger) (*App, error) {
	a := newApp(cfg, version, log)
	if err := a.listen(); err != nil {
		return nil, err
	}
	for _, s := range a.openers() {
		if !a.cfg.needs(s.name) {
			continue
		}
		if err := s.open(); err != nil {
			return nil, errors.Join(err, a.closeListeners(), a.close())
		}
	}
	a.linkStores()
	if err := a.buildCatalogue(); err != nil {
		return nil, errors.Join(err, a.closeListeners(), a.close())
	}
	if cfg.Relay.Enabled {
		var err error
		if a.relay, err = a.buildRelay(); err != nil {
			return nil, errors.Join(err, a.closeListeners(), a.close())
		}
	}
	return a, nil
}

// newApp returns an App that has opened nothing yet.
func newApp(cfg Config, version string, log *slog.Logger) *App {
	cfg.complete()
	return &App{
		cfg: cfg, version: version, log: log, metrics: metrics.New(version, cfg.Instance),
		servers: strategy.Servers{
			SetNXLease: cfg.Lock.SetNXLease, WatchdogLease: cfg.Lock.WatchdogLease, WatchdogMaxHold: cfg.Lock.MaxHold,
			Replicas: cfg.Lock.Replicas, ReplicaTimeout: cfg.Lock.ReplicaTimeout, MySQLKeys: cfg.MySQL.LockKeys,
			RepairSetNX: cfg.Lock.RepairSetNX, Segments: cfg.Lock.Segments,
			Merge:      service.MergeOptions{Limit: cfg.Merge.Limit, Queue: cfg.Merge.Queue},
			PlainLocks: !cfg.Lock.HandOver, Log: log,
		},
		backends: make(map[string]*health.Backend),
		stores:   make(map[string]service.StoreConfig),
		memories: make(map[string]memory),
		ledgers:  make(map[string]order.Store),
	}
}

// listen opens both listeners.
func (a *App) listen() (err error) {
	if a.listener, err = net.Listen("tcp", a.cfg.Addr); err != nil {
		return fmt.Errorf("listen (choose another address with --addr or STOCK_ADDR): %w", err)
	}
	a.connections = newConnections(a.listener)
	if a.cfg.Admin.Addr == "" {
		return nil
	}
	if a.operators, err = net.Listen("tcp", a.cfg.Admin.Addr); err != nil {
		_ = a.listener.Close()
		return fmt.Errorf("listen for operators "+
			`(choose another address with --admin-addr or STOCK_ADMIN_ADDR, or "" for none): %w`, err)
	}
	return nil
}

func (a *App) closeListeners() error {
	err := a.listener.Close()
	if a.operators != nil {
		err = errors.Join(err, a.operators.Close())
	}
	return err
}

// MeasureLog shows in the metrics how many lines w has dropped. Call it once, before Run.
func (a *App) MeasureLog(w *LogWriter) { a.metrics.Log(w.Dropped) }

// Addr returns the address of the listener for customers.
func (a *App) Addr() net.Addr { return a.listener.Addr() }

// AdminAddr returns the address of the listener for operators, or nil if there is none.
func (a *App) AdminAddr() net.Addr {
	if a.operators == nil {
		return nil
	}
	return a.operators.Addr()
}

// buildCatalogue builds every strategy that is enabled on the open clients, and the services on the strategies.
func (a *App) buildCatalogue() (err error) {
	configs := make(map[string]service.StrategyConfig)
	for _, s := range a.cfg.strategies() {
		config := a.build(s)
		shown := handler.Strategy{
			Name: s.Name, Endpoint: s.Endpoint, Summary: s.Summary.EN, Promise: s.Promise, RoundTrips: s.RoundTrips,
		}
		for _, need := range s.Needs {
			shown.Needs = append(shown.Needs, a.backends[need])
		}
		for _, store := range a.cfg.storesOf(s) {
			shown.Stores = append(shown.Stores, handler.Store{Name: store, Backend: a.backend(store)})
		}
		configs[s.Name] = config
		a.strategies = append(a.strategies, shown)
	}
	if err := a.buildOrders(configs); err != nil {
		return err
	}
	config := service.Config{
		Instance: a.cfg.Instance, Strategies: configs, Stores: a.stores, DefaultStore: a.cfg.Store,
		Wait: a.cfg.Wait, Work: a.cfg.Work, Pauses: &a.pauses, Waiting: a.cfg.Limits.Waiting,
		GuardIdle: service.GuardIdle,
	}
	if a.cfg.Lab {
		a.steps = service.NewSteps(keptSteps)
		config.Watch = a.steps
	}
	a.service, err = service.New(config)
	return err
}

// keptSteps is how many steps of sales an instance in lab mode keeps for those who watch it, some 200 bytes each.
const keptSteps = 4096

// build builds a strategy, unless a server that it needs is not configured: then it has no Seller, and says so.
func (a *App) build(s strategy.Strategy) service.StrategyConfig {
	config := service.StrategyConfig{
		Blocking: s.Promise.Blocking, Stores: s.Stores, Segmented: s.Segmented, Fits: s.Fits,
		// In the lab a stock must stay as the scenario has left it.
		Weak: s.Promise.Scope != lock.Cluster && !a.cfg.Lab,
	}
	configured := true
	for _, need := range s.Needs {
		config.Needs = append(config.Needs, a.backends[need])
		configured = configured && !a.backends[need].IsAbsent()
	}
	if configured {
		var closer func() error
		config.Seller, closer = s.Build(a.servers, func(l lock.Locker) lock.Locker {
			config.Lock = lock.Observe(l, a.metrics.Lock(s.Name))
			return config.Lock
		})
		a.closers = append(a.closers, closer)
	}
	return config
}

// firstProbes is how long startProbes waits for the first answers.
const firstProbes = 2 * health.Timeout

// startProbes probes every backend until close. It returns when each was probed once, so that the first requests find
// the servers that are up, or after firstProbes: a migration takes longer, and an instance that does not answer /livez
// is killed.
func (a *App) startProbes(ctx context.Context) {
	a.probing, a.stopProbes = context.WithCancel(ctx)
	var first sync.WaitGroup
	for _, b := range a.backends {
		a.metrics.Backend(b.Name(), b.Err())
		first.Add(1)
		a.probes.Go(func() { b.Run(a.probing, first.Done, a.backendChanged) })
	}
	asked := make(chan struct{})
	a.probes.Go(func() {
		first.Wait()
		a.checkStores()
		close(asked)
	})
	select {
	case <-asked:
	case <-time.After(firstProbes):
	}
}

// backendChanged counts and logs that a backend is up, up with exceptions, or down.
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
		a.log.Warn("backend is up, but not for everything", "backend", name, "reason", impaired)
	case down != nil:
		a.log.Warn("backend is down", "backend", name, "reason", down)
	default:
		a.log.Info("backend is up", "backend", name)
	}
}

// checkStores checks the stores again when all servers were probed. A store is seeded only after the other was asked
// what it remembers, and the first requests should not have to wait for the next probe.
func (a *App) checkStores() {
	ctx, cancel := context.WithTimeout(a.probing, health.Timeout)
	defer cancel()
	for _, store := range a.stores {
		if store.Data != nil && store.Needs.Err() == nil {
			_ = store.Data.Check(ctx) // the next probe reports an error
		}
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

// Commit returns the revision from which this program was built.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "unknown"
}

// NewLogger returns the log of an instance, on w.
func NewLogger(w io.Writer, cfg Config) *slog.Logger {
	cfg.complete()
	var level slog.Level
	_ = level.UnmarshalText([]byte(cfg.Log.Level)) // checked with the configuration
	options := &slog.HandlerOptions{Level: level}
	var h slog.Handler = slog.NewJSONHandler(w, options)
	if cfg.Log.Format == "text" {
		h = slog.NewTextHandler(w, options)
	}
	return slog.New(h).With("instance", cfg.Instance)
}

// LogRedis logs at level debug what the Redis client would print itself, such as every refused connection while the
// server is down. The health check logs once that a backend is down.
//
// The client has one logger for the whole process: call LogRedis once, before the first instance.
func LogRedis(log *slog.Logger) { redis.SetLogger(redisLog{log}) }

type redisLog struct{ log *slog.Logger }

func (r redisLog) Printf(ctx context.Context, format string, v ...any) {
	r.log.DebugContext(ctx, "redis client", "says", fmt.Sprintf(format, v...))
}
