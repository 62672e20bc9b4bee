package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/handler"
	"example.com/stock/health"
	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
	"example.com/stock/metrics"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/strategy"
)

// An app is everything that one instance has opened. Opening waits for no server: each is up when it is up.
type app struct {
	cfg      Config
	log      *slog.Logger
	metrics  *metrics.Metrics
	servers  strategy.Servers
	backends map[string]*health.Backend // by name
	shelves  map[string]service.Shelf   // by store
	service  *service.Service
	pauses   service.Pauses // of lab mode
	offers   []handler.Strategy

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
			Replicas: cfg.Lock.Replicas, ReplicaTimeout: cfg.Lock.ReplicaTimeout,
			RepairSetNX: cfg.Lock.RepairSetNX, Segments: cfg.Lock.Segments, PlainLocks: !cfg.Lock.HandOver, Log: log,
		},
		backends: make(map[string]*health.Backend),
		shelves:  make(map[string]service.Shelf),
	}
}

func openApp(cfg Config, log *slog.Logger) (*app, error) {
	a := newApp(cfg, log)
	for _, server := range a.openers() {
		if err := server.open(); err != nil {
			return nil, errors.Join(err, a.close())
		}
	}
	a.offer()
	return a, nil
}

// An opener makes one of the servers known that strategies need.
type opener struct {
	name string
	open func() error
}

func (a *app) openers() []opener {
	return []opener{
		{strategy.Redis, a.openRedis},
		{strategy.Redlock, a.openRedlock},
		{strategy.ZooKeeper, a.openZooKeeper},
		{strategy.MySQL, a.openMySQL},
	}
}

func (a *app) openRedis() error {
	c := a.cfg.Redis
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.Cluster, DB: c.DB,
		Username: c.Username, Password: c.Password, SentinelPassword: c.SentinelPassword, PoolSize: c.PoolSize,
		// Without this a command ignores its context's deadline: a wait of 100 ms on a silent server takes ReadTimeout.
		ContextTimeoutEnabled: true,
		// A retry after a lost reply would run a script twice. Who may retry does so knowingly.
		MaxRetries:  -1,
		DialTimeout: c.Timeout / 2, DialerRetries: 1,
		ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, PoolTimeout: c.Timeout,
	})
	a.servers.Redis = client
	a.closers = append(a.closers, client.Close)
	store := repo.NewRedis(client)
	a.shelve(strategy.Redis, store, len(c.Addrs) > 0, "it is not configured: set redis.addrs (STOCK_REDIS_ADDRS)",
		func(ctx context.Context) error { return client.Ping(ctx).Err() }, nil)
	return nil
}

func (a *app) openMySQL() error {
	c := a.cfg.MySQL
	if c.DSN == "" {
		a.backends[strategy.MySQL] = health.Absent(strategy.MySQL, "it is not configured: set mysql.dsn (STOCK_MYSQL_DSN)")
		a.shelves[strategy.MySQL] = service.Shelf{Needs: a.backends[strategy.MySQL]}
		return nil
	}
	db, err := repo.OpenMySQL(c.DSN, repo.Pool{Open: c.PoolSize})
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	a.closers = append(a.closers, pool.Close)
	// Locks that keep a connection need a pool of their own: in a common one the waiters can take what the holder needs to write.
	lockDB, err := repo.OpenMySQL(c.DSN, repo.Pool{Open: c.LockPoolSize})
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	if a.servers.MySQL, err = lockDB.DB(); err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	a.closers = append(a.closers, a.servers.MySQL.Close)
	migrator, err := repo.NewMigrator(db)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	ready := migrator.Check
	if c.Migrate {
		ready = func(ctx context.Context) error {
			applied, err := migrator.Up(ctx)
			if len(applied) > 0 {
				a.log.Info("schema brought up", "migrations", len(applied))
			}
			return err
		}
	}
	a.shelve(strategy.MySQL, repo.NewMySQL(db), true, "", pool.PingContext, ready)
	return nil
}

func (a *app) openZooKeeper() error {
	c := a.cfg.ZooKeeper
	if len(c.Hosts) == 0 {
		a.backends[strategy.ZooKeeper] = health.Absent(strategy.ZooKeeper, "it is not configured: set zookeeper.hosts (STOCK_ZOOKEEPER_HOSTS)")
		return nil
	}
	session, err := zklock.Dial(zklock.Config{
		Hosts: c.Hosts, SessionTimeout: c.SessionTimeout, ConnectTimeout: c.ConnectTimeout, Root: c.Root, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("open zookeeper: %w", err)
	}
	a.servers.ZooKeeper = session
	a.closers = append(a.closers, func() error { session.Close(); return nil })
	a.backends[strategy.ZooKeeper] = health.New(strategy.ZooKeeper, session.Check)
	return nil
}

// A stocked store is what wire needs of both.
type stocked interface {
	service.Store
	service.Stockroom
}

// shelve makes a store and its backend known. Every time that the server comes up, ready (if any) and the seed run first: a
// server that lost its data is usable again without a restart here.
func (a *app) shelve(name string, store stocked, configured bool, reason string, ping, ready func(context.Context) error) {
	if !configured {
		a.backends[name] = health.Absent(name, reason)
		a.shelves[name] = service.Shelf{Store: store, Needs: a.backends[name]}
		return
	}
	fresh := true
	check := func(ctx context.Context) error {
		if err := ping(ctx); err != nil {
			fresh = true
			return err
		}
		if !fresh {
			return nil
		}
		// A migration takes longer than a probe may, and may have to wait for that of another instance. It must not keep us from stopping.
		ctx, cancel := context.WithTimeout(a.life, time.Minute)
		defer cancel()
		if ready != nil {
			if err := ready(ctx); err != nil {
				if a.life.Err() == nil {
					a.log.Error("prepare "+name, "err", err)
				}
				return err
			}
		}
		if err := store.Seed(ctx, service.SKU(a.cfg.Seed.SKU), a.cfg.Seed.Quantity); err != nil {
			return err
		}
		fresh = false
		return nil
	}
	a.backends[name] = health.New(name, check)
	a.shelves[name] = service.Shelf{Store: store, Needs: a.backends[name]}
}

// offer builds the catalogue on what has been opened.
func (a *app) offer() {
	offers := make(map[string]service.Offer)
	for _, s := range strategy.All() {
		offer := service.Offer{Blocking: s.Promise.Blocking, Stores: s.Stores, Segmented: s.Around != nil}
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
			offer.Way, closer = s.Build(a.servers, func(l lock.Locker) lock.Locker {
				offer.Lock = lock.Observe(l, a.metrics.Lock(s.Name))
				return offer.Lock
			})
			a.closers = append(a.closers, closer)
		}
		for _, store := range a.stores(s) {
			shown.Stores = append(shown.Stores, handler.Store{Name: store, Backend: a.backends[store]})
		}
		offers[s.Name] = offer
		a.offers = append(a.offers, shown)
	}
	a.service = service.New(service.Config{
		Instance: a.cfg.Instance, Offers: offers, Shelves: a.shelves, Store: a.cfg.Store, Wait: a.cfg.Wait, Work: a.cfg.Work,
		Pauses: &a.pauses,
	})
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

// start probes every backend until close. It returns when each has been asked once, so that the first requests find the servers that
// are there, or after patience: a migration takes longer, and an instance that does not answer /livez is killed.
func (a *app) start(ctx context.Context) {
	a.life, a.stop = context.WithCancel(ctx)
	changed := func(name string, down error) {
		a.metrics.Backend(name, down)
		if down != nil {
			a.log.Warn("backend is down", "backend", name, "reason", down)
		} else {
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
		close(asked)
	})
	select {
	case <-asked:
	case <-time.After(patience):
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
