package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/health"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/strategy"
)

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
